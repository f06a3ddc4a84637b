package egress

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxURL is the longest URL, in bytes, both as given and in its canonical form.
const MaxURL = 2048

// Codes of a URLError; the API answers with them.
const (
	CodeURLBlocked  = "endpoint_url_blocked"  // well formed, but deliveries may not go there
	CodeURLInsecure = "endpoint_url_insecure" // http where https is required
	CodeURLInvalid  = "validation_failed"     // not a URL that an endpoint can have
)

// URLError says why a URL is refused. Its texts are for the tenant and never quote the URL, which may hold a
// secret.
type URLError struct {
	Code   string // one of the Code constants
	Detail string // what is wrong, one sentence
	Hint   string // what to do; may be empty

	class Class
}

func (e *URLError) Error() string { return e.Code + ": " + e.Detail }

// Class says for the operator why a URL is blocked.
func (e *URLError) Class() Class { return e.class }

func invalid(detail, hint string) *URLError {
	return &URLError{Code: CodeURLInvalid, Detail: detail, Hint: hint, class: ClassURL}
}

func blocked(class Class) *URLError {
	e := &URLError{Code: CodeURLBlocked, Detail: "Deliveries may not go to this host.", Hint: "Use a host that is reachable from the public internet.", class: class}
	if class == ClassPort {
		e.Detail, e.Hint = "Deliveries may not go to this port.", "Use port 443, or one that the operator has opened."
	}
	return e
}

// target is a URL that was taken apart and judged.
type target struct {
	url    *url.URL
	host   string     // canonical name, or the address as netip prints it
	addr   netip.Addr // valid where the host is an address
	port   uint16
	secure bool // https
}

// ParseURL judges the URL of an endpoint by its text alone, as p says, and returns it in canonical form: the
// scheme and host in lower case, international names in ASCII, no trailing dot, no default port, a path of at
// least "/", only ASCII. Nothing is resolved. Parsing its result again gives the same. The error is a
// *URLError; a policy that doesn't compile refuses everything, with an error that wraps ErrPolicy.
func ParseURL(raw string, p Policy) (*url.URL, error) {
	g, err := p.compile()
	if err != nil {
		return nil, err
	}
	t, urlErr := g.parse(raw)
	if urlErr != nil {
		return nil, urlErr
	}
	return t.url, nil
}

func (g *guard) parse(raw string) (target, *URLError) {
	if err := checkText(raw); err != nil {
		return target{}, err
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	t := target{secure: strings.EqualFold(scheme, "https")}
	if !ok || !t.secure && !strings.EqualFold(scheme, "http") {
		return target{}, invalid("The URL must begin with https:// .", "")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	switch {
	case strings.Contains(authority, "@"):
		return target{}, invalid("The URL must not hold a user name or a password.", "Send credentials in a header of the endpoint.")
	case strings.Contains(path, "#"):
		return target{}, invalid("The URL must not have a fragment (#).", "")
	}
	host, portText, ok := splitAuthority(authority)
	if !ok {
		return target{}, invalid("The URL must name a host, or a host and a port.", "")
	}
	if err := t.setPort(portText); err != nil {
		return target{}, err
	}
	name, addr, err := canonicalHost(host)
	if err != nil {
		return target{}, err
	}
	t.host, t.addr = name, addr
	if addr.IsValid() {
		t.host = addr.String()
	}
	if err := t.setURL(path); err != nil {
		return target{}, err
	}
	if class, ok := g.judgeText(t); !ok {
		return target{}, blocked(class)
	}
	if !t.secure && !g.allowHTTP {
		return target{}, &URLError{Code: CodeURLInsecure, Detail: "The URL must use https.", Hint: "Give the receiver a certificate and write https:// .", class: ClassInsecure}
	}
	return t, nil
}

func (g *guard) judgeText(t target) (Class, bool) {
	if t.addr.IsValid() {
		return g.judge(t.host, netip.AddrPortFrom(t.addr, t.port))
	}
	return g.judgeName(t.host, t.port)
}

// checkText refuses what no URL may hold anywhere, before anything is taken apart: characters that are
// invisible, that end a line or a header, or that parsers disagree about.
func checkText(raw string) *URLError {
	switch {
	case raw == "":
		return invalid("The URL must not be empty.", "")
	case len(raw) > MaxURL:
		return invalid("The URL must have at most 2048 bytes.", "")
	case !utf8.ValidString(raw):
		return invalid("The URL is not UTF-8.", "")
	}
	for _, r := range raw {
		if r > ' ' && r < 0x7f && r != '\\' {
			continue
		}
		if r < 0x80 || unicode.In(r, unicode.C, unicode.Z, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return invalid("The URL must not hold spaces, backslashes, control or invisible characters.", "Percent-encode what belongs to the path or the query.")
		}
	}
	return nil
}

func (t *target) setPort(text string) *URLError {
	if text == "" {
		t.port = 80
		if t.secure {
			t.port = 443
		}
		return nil
	}
	port, ok := parsePort(text)
	if !ok {
		return invalid("The port must be a number from 1 to 65535.", "")
	}
	t.port = port
	return nil
}

// authority returns host[:port] as it stands in the URL and in the Host header.
func (t *target) authority() string {
	host := t.host
	if t.addr.Is6() {
		host = "[" + host + "]"
	}
	if t.secure && t.port == 443 || !t.secure && t.port == 80 {
		return host
	}
	return host + ":" + strconv.Itoa(int(t.port))
}

// setURL puts the canonical URL together from what was judged, never from the text as given. path is what
// follows the authority.
func (t *target) setURL(path string) *URLError {
	scheme := "http://"
	if t.secure {
		scheme = "https://"
	}
	path, query, hasQuery := strings.Cut(path, "?")
	if !validEscapes(path) || !validEscapes(query) {
		return invalid("A percent sign must be followed by two hexadecimal digits.", "Write a percent sign itself as %25.")
	}
	if path == "" {
		path = "/"
	}
	canonical := scheme + t.authority() + escape(path)
	if hasQuery {
		canonical += "?" + escape(query)
	}
	if len(canonical) > MaxURL {
		return invalid("The URL, with its special characters encoded, must have at most 2048 bytes.", "")
	}
	u, err := url.Parse(canonical)
	if err != nil { // its text would quote the URL
		return invalid("The URL is malformed.", "")
	}
	t.url = u
	return nil
}

// escape percent-encodes what may not stand in a path or query as it is; everything else stays as the tenant
// wrote it, since a receiver may compare.
func escape(s string) string {
	plain := func(c byte) bool { return c < 0x80 && !strings.ContainsRune("\"<>[]^`{|}", rune(c)) }
	clean := true
	for i := range len(s) {
		clean = clean && plain(s[i])
	}
	if clean {
		return s
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

func validEscapes(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return false
		}
		i += 2
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
