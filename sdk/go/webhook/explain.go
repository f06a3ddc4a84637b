package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxExplained bounds the bodies that are looked into after a mismatch: it hashes the body up to five times more for
// each secret, at the wish of anyone who can send a request.
const maxExplained = 64 << 10

// explain finds out why no signature matches. The body that was signed is gone, but the commonest way to lose it can be
// undone: if the signature matches what the body was before, then the secret is right and the body is not.
func (v *Verifier) explain(sums [][]byte, id string, timestamp int64, body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("%w (it is empty: something read the request before)", ErrBodyChanged)
	}
	if len(body) <= maxExplained {
		for _, before := range originals(body) {
			if v.matches(sums, id, timestamp, before) {
				return fmt.Errorf("%w (it was parsed and written again, or white space was added)", ErrBodyChanged)
			}
		}
	}
	return fmt.Errorf("%w (tried the secrets with the fingerprints %s: compare them with the endpoint's)", ErrNoMatch, v.fingerprints())
}

// originals guesses what a body was before somebody wrote it again. The gateway writes no white space between members,
// escapes nothing that needs no escape, and has a fixed order of members; libraries add spaces (Python), escape what is
// not ASCII (Python) or looks like HTML (Go), or sort the keys (Go). What they do to data that was posted in another
// form can't be undone.
func originals(body []byte) [][]byte {
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	guesses := [][]byte{trimmed}
	var compact bytes.Buffer
	if json.Compact(&compact, trimmed) != nil {
		return guesses
	}
	for _, text := range [][]byte{compact.Bytes(), unescape(compact.Bytes())} {
		guesses = append(guesses, text)
		if ordered := reorder(text); ordered != nil {
			guesses = append(guesses, ordered)
		}
	}
	return guesses
}

// unescape writes characters for escapes that none of them needs, in JSON that is known to be valid.
func unescape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		switch {
		case text[0] != '\\':
			out, text = append(out, text[0]), text[1:]
		case text[1] == '/':
			out, text = append(out, '/'), text[2:]
		case text[1] != 'u':
			out, text = append(out, text[:2]...), text[2:]
		default:
			r, length := escaped(text)
			if r < 0x20 || r == '"' || r == '\\' || utf16.IsSurrogate(r) {
				out = append(out, text[:length]...)
			} else {
				out = utf8.AppendRune(out, r)
			}
			text = text[length:]
		}
	}
	return out
}

// escaped reads \uXXXX at the start of a text, or two of them that make one character, and tells their length. Half of
// such a pair is given as it is.
func escaped(text []byte) (rune, int) {
	first := hexRune(text)
	if utf16.IsSurrogate(first) {
		if rest := text[6:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
			if pair := utf16.DecodeRune(first, hexRune(rest)); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return first, 6
}

// hexRune reads the four digits of \uXXXX.
func hexRune(text []byte) rune {
	n, _ := strconv.ParseUint(string(text[2:6]), 16, 32) // valid JSON has four hex digits here
	return rune(n)
}

// reorder puts the members of an event into the order in which the gateway writes them. It gives nil for what is no
// event.
func reorder(text []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil
	}
	out := append(make([]byte, 0, len(text)), '{')
	for _, name := range [...]string{"id", "uid", "type", "subject", "occurred_at", "data"} {
		value, ok := members[name]
		if !ok {
			continue
		}
		delete(members, name)
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, name...)
		out = append(out, `":`...)
		out = append(out, value...)
	}
	if len(members) > 0 {
		return nil
	}
	return append(out, '}')
}
