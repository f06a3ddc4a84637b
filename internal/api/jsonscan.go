package api

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxNesting is how deep a JSON value may be nested: an array or object in 127 others is the deepest.
const maxNesting = 128

// scanner reads JSON (RFC 8259) from bytes that are known to be UTF-8. It builds nothing; it finds where values end.
// It accepts what encoding/json accepts, less what is nested too deeply.
type scanner struct {
	text []byte
	at   int
}

// syntaxError says where the text stops being JSON.
type syntaxError struct {
	offset int
	reason string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.offset, e.reason) }

// nestingError says where the text is nested too deeply.
type nestingError struct{ offset int }

func (e *nestingError) Error() string {
	return fmt.Sprintf("at byte %d: nested deeper than %d levels", e.offset, maxNesting)
}

// place is where in a document the scanner is, for a JSON pointer. A nil place is none: then keys may repeat.
type place struct {
	parent   *place
	key      string
	index    int // of an array's element; -1 for a key
	repeated *[]string
}

func (s *scanner) fail(reason string) error { return &syntaxError{offset: s.at, reason: reason} }

// expected is a syntax error about the byte that is next.
func (s *scanner) expected(what string) error {
	if s.at >= len(s.text) {
		return s.fail("the text ends, expected " + what)
	}
	r, _ := utf8.DecodeRune(s.text[s.at:])
	return s.fail(fmt.Sprintf("found %q, expected %s", r, what))
}

// space skips white space and returns the next byte, or 0 at the end of the text.
func (s *scanner) space() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// end makes sure that nothing follows.
func (s *scanner) end() error {
	if s.space(); s.at < len(s.text) {
		return s.expected("the end of the text")
	}
	return nil
}

// value skips one value; depth is how many arrays and objects it is in.
func (s *scanner) value(depth int, in *place) error {
	switch c := s.space(); {
	case c == '{':
		return s.object(depth, in)
	case c == '[':
		return s.array(depth, in)
	case c == '"':
		_, _, err := s.str()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.expected("a value")
}

func (s *scanner) array(depth int, in *place) error {
	if depth >= maxNesting {
		return &nestingError{offset: s.at}
	}
	s.at++ // [
	if s.space() == ']' {
		s.at++
		return nil
	}
	for i := 0; ; i++ {
		if err := s.value(depth+1, in.element(i)); err != nil {
			return err
		}
		switch s.space() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return s.expected("a comma or ]")
		}
	}
}

func (s *scanner) object(depth int, in *place) error {
	if depth >= maxNesting {
		return &nestingError{offset: s.at}
	}
	var seen map[string]struct{}
	if in != nil {
		seen = make(map[string]struct{})
	}
	more, err := s.firstKey()
	for more && err == nil {
		var raw []byte
		var escaped bool
		if raw, escaped, err = s.memberKey(); err != nil {
			return err
		}
		member := in
		if in != nil {
			name, _ := unquote(raw, escaped)
			member = in.member(name)
			if _, again := seen[name]; again {
				*in.repeated = append(*in.repeated, member.pointer())
			}
			seen[name] = struct{}{}
		}
		if err = s.value(depth+1, member); err != nil {
			return err
		}
		more, err = s.nextKey()
	}
	return err
}

// firstKey steps into an object and says whether it has a key.
func (s *scanner) firstKey() (bool, error) {
	s.at++ // {
	switch s.space() {
	case '"':
		return true, nil
	case '}':
		s.at++
		return false, nil
	}
	return false, s.expected("a key in quotes or }")
}

// nextKey steps over what follows a member, and says whether another one does.
func (s *scanner) nextKey() (bool, error) {
	switch s.space() {
	case ',':
		s.at++
	case '}':
		s.at++
		return false, nil
	default:
		return false, s.expected("a comma or }")
	}
	if s.space() != '"' {
		return false, s.expected("a key in quotes")
	}
	return true, nil
}

// memberKey reads a key and its colon.
func (s *scanner) memberKey() (raw []byte, escaped bool, err error) {
	if raw, escaped, err = s.str(); err != nil {
		return nil, false, err
	}
	if s.space() != ':' {
		return nil, false, s.expected("a colon")
	}
	s.at++
	return raw, escaped, nil
}

// str reads a string and returns what is between its quotes, and whether that holds an escape.
func (s *scanner) str() (raw []byte, escaped bool, err error) {
	s.at++ // "
	begin := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			raw = s.text[begin:s.at]
			s.at++
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		case c < 0x20:
			return nil, false, s.fail(fmt.Sprintf("the control character 0x%02x in a string must be escaped", c))
		default:
			s.at++
		}
	}
	return nil, false, s.expected("the end of a string")
}

// escape skips one escape.
func (s *scanner) escape() error {
	s.at++ // \
	if s.at >= len(s.text) {
		return s.expected("the rest of an escape")
	}
	switch s.text[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return nil
	case 'u':
		s.at++
		for range 4 {
			if s.at >= len(s.text) || !isHex(s.text[s.at]) {
				return s.expected(`four hexadecimal digits after \u`)
			}
			s.at++
		}
		return nil
	}
	return s.expected(`one of "\/bfnrtu after \`)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) number() error {
	if s.text[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.text) && s.text[s.at] == '0' {
		s.at++ // nothing but a point or an exponent may follow
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.at < len(s.text) && (s.text[s.at] == 'e' || s.text[s.at] == 'E') {
		s.at++
		if s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() error {
	begin := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	if s.at == begin {
		return s.expected("a digit")
	}
	return nil
}

func (s *scanner) word(w string) error {
	for i := range len(w) {
		if s.at >= len(s.text) || s.text[s.at] != w[i] {
			return s.expected(w)
		}
		s.at++
	}
	return nil
}

// unquote resolves the escapes of a string that str has read. It is not whole if a surrogate stands alone: no UTF-8
// can hold that.
func unquote(raw []byte, escaped bool) (text string, whole bool) {
	if !escaped {
		return string(raw), true
	}
	whole = true
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			b = append(b, raw[i])
			i++
			continue
		}
		i += 2
		switch c := raw[i-1]; c {
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r := hex4(raw[i:])
			i += 4
			if 0xd800 <= r && r < 0xdc00 && len(raw) >= i+6 && raw[i] == '\\' && raw[i+1] == 'u' {
				if low := hex4(raw[i+2:]); 0xdc00 <= low && low < 0xe000 {
					r = (r-0xd800)<<10 + (low - 0xdc00) + 0x10000
					i += 6
				}
			}
			whole = whole && utf8.ValidRune(r)
			b = utf8.AppendRune(b, r)
		default: // a quote, a backslash or a slash
			b = append(b, c)
		}
	}
	return string(b), whole
}

func hex4(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// element is the place of an array's element.
func (p *place) element(i int) *place {
	if p == nil {
		return nil
	}
	return &place{parent: p, index: i, repeated: p.repeated}
}

// member is the place of an object's member.
func (p *place) member(key string) *place {
	return &place{parent: p, key: key, index: -1, repeated: p.repeated}
}

// pointer writes a place as a JSON pointer (RFC 6901).
func (p *place) pointer() string {
	switch {
	case p == nil || p.parent == nil:
		return ""
	case p.index >= 0:
		return p.parent.pointer() + "/" + strconv.Itoa(p.index)
	}
	return p.parent.pointer() + "/" + pointerToken(p.key)
}
