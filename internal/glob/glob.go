package glob

import (
	"fmt"
	"strings"
)

// Limits of a glob and of a list of them.
const (
	MaxBytes = 128
	MaxList  = 50
	maxDeep  = 2 // "**" in one glob: then only its middle block has no fixed place
)

// Separator tells types from scopes.
type Separator byte

// The separators of the two grammars.
const (
	Dot   Separator = '.' // of types
	Slash Separator = '/' // of scopes
)

const deep = "**"

// Pattern is a glob that keeps to the grammar. The zero value is none.
type Pattern struct {
	separator Separator
	segments  []string
}

// Error says what is wrong with a glob, a type or a scope, and where.
type Error struct {
	Pattern string // as it was given; the end of a long one is cut off
	Index   int    // its place in the list it came in
	Offset  int    // of the first byte that is wrong
	Reason  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%q: %s, at byte %d", e.Pattern, e.Reason, e.Offset)
}

// Parse reads one glob. The error is an *Error.
func Parse(sep Separator, text string) (Pattern, error) {
	p, err := parse(sep, text)
	if err != nil {
		return Pattern{}, err
	}
	return p, nil
}

func parse(sep Separator, text string) (Pattern, *Error) {
	if err := checkLength(text); err != nil {
		return Pattern{}, err
	}
	if text == "*" {
		text = deep
	}
	p := Pattern{separator: sep}
	deeps, at := 0, 0
	for segment := range strings.SplitSeq(text, string(sep)) {
		if offset, reason := checkSegment(sep, segment, true); reason != "" {
			return Pattern{}, &Error{Pattern: text, Offset: at + offset, Reason: reason}
		}
		if segment == deep {
			if deeps++; deeps > maxDeep {
				return Pattern{}, &Error{Pattern: text, Offset: at, Reason: "a third ** (two are allowed)"}
			}
		}
		// Two in a row mean what one means.
		if n := len(p.segments); segment != deep || n == 0 || p.segments[n-1] != deep {
			p.segments = append(p.segments, segment)
		}
		at += len(segment) + 1
	}
	return p, nil
}

// ParseList reads up to MaxList globs and leaves out repeated ones; the order stays. The error is an *Error.
func ParseList(sep Separator, texts []string) ([]Pattern, error) {
	if len(texts) > MaxList {
		return nil, &Error{Pattern: cut(texts[MaxList]), Index: MaxList, Reason: fmt.Sprintf("one glob too many (%d are allowed)", MaxList)}
	}
	patterns := make([]Pattern, 0, len(texts))
	seen := make(map[string]bool, len(texts))
	for i, text := range texts {
		p, err := parse(sep, text)
		if err != nil {
			err.Index = i
			return nil, err
		}
		if s := p.String(); !seen[s] {
			seen[s] = true
			patterns = append(patterns, p)
		}
	}
	return patterns, nil
}

// CheckText says whether a text is a type or a scope: what a glob without stars is. The error is an *Error.
func CheckText(sep Separator, text string) error {
	if err := checkLength(text); err != nil {
		return err
	}
	at := 0
	for segment := range strings.SplitSeq(text, string(sep)) {
		if offset, reason := checkSegment(sep, segment, false); reason != "" {
			return &Error{Pattern: text, Offset: at + offset, Reason: reason}
		}
		at += len(segment) + 1
	}
	return nil
}

func checkLength(text string) *Error {
	switch {
	case text == "":
		return &Error{Reason: "it is empty"}
	case len(text) > MaxBytes:
		return &Error{Pattern: cut(text), Offset: MaxBytes, Reason: fmt.Sprintf("it is longer than %d bytes", MaxBytes)}
	}
	return nil
}

func cut(text string) string {
	if len(text) <= MaxBytes {
		return text
	}
	return text[:MaxBytes] + "…"
}

// checkSegment returns the place and the reason of the first fault; the reason is empty if there is none.
func checkSegment(sep Separator, segment string, stars bool) (int, string) {
	if segment == "" {
		return 0, "an empty segment"
	}
	if stars && segment == deep {
		return 0, ""
	}
	star := false
	for i := range len(segment) {
		switch c := segment[i]; {
		case isNameByte(c):
		case c != '*' || !stars:
			return i, unexpected(sep, segment[i:], stars)
		case strings.HasPrefix(segment[i:], deep):
			return i, "** within a segment (it must be a whole one)"
		case star:
			return i, "a second * in one segment"
		default:
			star = true
		}
	}
	return 0, ""
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

func unexpected(sep Separator, rest string, stars bool) string {
	first := []rune(rest[:min(len(rest), 4)])[0]
	switch {
	case sep == Dot && first == '/':
		return "a slash (types are separated by dots)"
	case sep == Slash && first == '.':
		return "a dot (scopes are separated by slashes)"
	case first == '*' && !stars:
		return "a star (only globs have them)"
	}
	return fmt.Sprintf("%q (only A-Z, a-z, 0-9, _ and - are allowed)", first)
}

// String writes the glob down as it is stored: two globs of one text are one.
func (p Pattern) String() string { return strings.Join(p.segments, string(p.separator)) }

// Separator is that of the grammar it was read by.
func (p Pattern) Separator() Separator { return p.separator }

// First is its first segment.
func (p Pattern) First() string { return p.segments[0] }

// All says whether it is "**", which admits everything.
func (p Pattern) All() bool { return len(p.segments) == 1 && p.segments[0] == deep }

// Literal says whether it has no star, and so admits one text only.
func (p Pattern) Literal() bool {
	for _, s := range p.segments {
		if strings.Contains(s, "*") {
			return false
		}
	}
	return true
}

// Blocks returns what stands around and between the "**", as globs of their own: a.*.**.b has the blocks a.* and b, and
// ** two empty ones. A text is admitted if it begins with the first block, ends with the last one and, between them,
// holds the middle one; without a "**" there is one block, which is all of it.
func (p Pattern) Blocks() []string {
	var blocks []string
	from := 0
	for i, s := range p.segments {
		if s == deep {
			blocks = append(blocks, strings.Join(p.segments[from:i], string(p.separator)))
			from = i + 1
		}
	}
	return append(blocks, strings.Join(p.segments[from:], string(p.separator)))
}
