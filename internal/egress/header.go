package egress

import (
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxKeptValue is how many bytes are kept of one value of an answer's header.
const maxKeptValue = 256

// keptHeaders are the headers of an answer that are kept: what helps its owner to understand it, and
// Retry-After. Cookies and the rest are nobody's business in a delivery log.
var keptHeaders = [...]string{"Content-Encoding", "Content-Length", "Content-Type", "Date", "Location", "Retry-After", "Server", "X-Request-Id"}

// ReservedHeader tells whether a header belongs to the client: those that frame the request, name its host,
// govern the connection, or ask for an encoding. A request's own values for them are dropped, so that a
// header planted anywhere can't change where a request ends. The name may be in any case.
func ReservedHeader(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Http2-Settings",
		"Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Expect", "Accept-Encoding":
		return true
	default:
		return false
	}
}

// ValidHeader tells whether name and value can be sent at all: a token, and no control characters.
func ValidHeader(name, value string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

func validHeaders(h http.Header) bool {
	for name, values := range h {
		for _, value := range values {
			if !ValidHeader(name, value) && !ReservedHeader(name) {
				return false
			}
		}
	}
	return true
}

// keep returns the headers of an answer that are stored, one value each, cut to a bound and free of bytes
// that a database or a terminal would choke on.
func keep(all http.Header) http.Header {
	var kept http.Header
	for _, name := range keptHeaders {
		values := all[name]
		if len(values) == 0 {
			continue
		}
		if kept == nil {
			kept = make(http.Header, 4)
		}
		kept[name] = []string{printable(values[0])}
	}
	return kept
}

func printable(value string) string {
	if len(value) > maxKeptValue {
		value = value[:maxKeptValue]
	}
	clean := func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}
	return strings.Map(clean, strings.ToValidUTF8(value, ""))
}
