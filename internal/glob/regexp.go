package glob

import "strings"

// Regexp writes the glob as a regular expression that admits the same types or scopes, in what PostgreSQL and Go have in
// common: for a search in the database, where no glob can be matched. The texts it is put to must be valid ones.
func (p Pattern) Regexp() string {
	if p.All() {
		return "^"
	}
	separator := "[" + string(p.separator) + "]"
	star := "[^" + string(p.separator) + "]*"
	var b strings.Builder
	b.WriteByte('^')
	for i, s := range p.segments {
		last := i == len(p.segments)-1
		switch {
		case s == deep && last: // the separator before it belongs to it
			b.WriteString("(" + separator + ".*)?")
		case s == deep:
			b.WriteString("(.*" + separator + ")?")
		default:
			b.WriteString(strings.Replace(s, "*", star, 1))
			if !last && (p.segments[i+1] != deep || i+2 < len(p.segments)) {
				b.WriteString(separator)
			}
		}
	}
	b.WriteByte('$')
	return b.String()
}
