package endpoint

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// Limits of an endpoint's own headers, in bytes.
const (
	MaxHeaders     = 20
	maxHeaderName  = 128
	MaxHeaderValue = 4096
)

// ReservedHeader says whether a header is the gateway's to send: it would change how the request is framed, or what it
// says about itself.
func ReservedHeader(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "host", "content-length", // how it is framed and where it goes
		"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", // of this hop only
		"content-type", "content-encoding", "accept-encoding", "user-agent", "traceparent", "tracestate": // said by the gateway
		return true
	}
	return strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "webhook-")
}

// mergeHeaders returns what a change makes of an endpoint's own headers, by name in canonical spelling; nil removes
// one. The error is an *Invalid, and repeats no value.
func mergeHeaders(current map[string]string, change map[string]*string) (map[string]string, error) {
	merged := maps.Clone(current)
	if merged == nil {
		merged = make(map[string]string, len(change))
	}
	seen := make(map[string]bool, len(change))
	for _, name := range slices.Sorted(maps.Keys(change)) {
		canonical, err := checkHeaderName(name)
		if err != nil {
			return nil, err
		}
		if seen[canonical] {
			return nil, headerError(name, "It is there twice; upper and lower case make no difference.")
		}
		seen[canonical] = true
		value := change[name]
		if value == nil {
			delete(merged, canonical)
			continue
		}
		if err := checkHeaderValue(name, *value); err != nil {
			return nil, err
		}
		merged[canonical] = *value
	}
	if len(merged) > MaxHeaders {
		return nil, &Invalid{Field: "headers", Code: tenant.CodeInvalid, Detail: fmt.Sprintf("There are %d headers; at most %d are allowed.", len(merged), MaxHeaders)}
	}
	return merged, nil
}

func checkHeaderName(name string) (canonical string, err error) {
	switch {
	case name == "" || len(name) > maxHeaderName || strings.ContainsFunc(name, notTokenRune):
		return "", headerError(name, fmt.Sprintf("A header's name is 1 to %d letters, digits and !#$%%&'*+-.^_`|~ .", maxHeaderName))
	case ReservedHeader(name):
		return "", headerError(name, "The gateway sends this header itself.")
	}
	return http.CanonicalHeaderKey(name), nil
}

// notTokenRune finds what RFC 9110 does not allow in a name (section 5.6.2).
func notTokenRune(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func checkHeaderValue(name, value string) error {
	switch {
	case len(value) > MaxHeaderValue:
		return headerError(name, fmt.Sprintf("Its value has %d bytes; at most %d are allowed.", len(value), MaxHeaderValue))
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return headerError(name, "Its value holds a line break or another control character, or is not UTF-8.")
	case strings.HasPrefix(value, " ") || strings.HasSuffix(value, " "):
		return headerError(name, "Its value begins or ends with a space, which would be lost on the way.")
	}
	return nil
}

func headerError(name, detail string) *Invalid {
	return &Invalid{Field: "headers/" + tenant.PointerToken(name), Code: tenant.CodeInvalid, Detail: detail}
}
