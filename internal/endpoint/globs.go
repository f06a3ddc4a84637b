package endpoint

import "github.com/sallyport-dev/sallyport/internal/glob"

// GlobError says which glob, type or scope is wrong, at which byte and why.
type GlobError = glob.Error

// ours is the first segment of the types that only the gateway itself emits.
const ours = "gateway"

// Globs is a compiled list of globs: it admits a text if one of them does. The zero value admits none. It is safe for
// concurrent use.
type Globs struct {
	texts     []string
	separator byte
	literals  map[string]struct{} // the globs without a star
	patterns  []pattern
	all       bool // "**" is among them
}

// CompileTypes compiles globs of types. The error is a *GlobError.
func CompileTypes(globs []string) (Globs, error) { return compile(glob.Dot, globs) }

// CompileScopes compiles globs of scopes. The error is a *GlobError.
func CompileScopes(globs []string) (Globs, error) { return compile(glob.Slash, globs) }

// ValidType says whether a text is an event's type; the error is a *GlobError. It lets the gateway's own types pass:
// see Reserved.
func ValidType(text string) error { return glob.CheckText(glob.Dot, text) }

// ValidScope says whether a text is an event's scope; the error is a *GlobError.
func ValidScope(text string) error { return glob.CheckText(glob.Slash, text) }

// Reserved says whether a type is the gateway's own: its first segment is "gateway".
func Reserved(typ string) bool {
	return len(typ) >= len(ours) && typ[:len(ours)] == ours && (len(typ) == len(ours) || typ[len(ours)] == '.')
}

func compile(sep glob.Separator, texts []string) (Globs, error) {
	parsed, err := glob.ParseList(sep, texts)
	if err != nil {
		return Globs{}, err
	}
	g := Globs{separator: byte(sep), texts: make([]string, len(parsed)), literals: make(map[string]struct{})}
	for i, p := range parsed {
		g.texts[i] = p.String()
		switch {
		case p.All():
			g.all = true
		case p.Literal():
			g.literals[p.String()] = struct{}{}
		default:
			compiled, err := newPattern(p)
			if err != nil {
				return Globs{}, err
			}
			g.patterns = append(g.patterns, compiled)
		}
	}
	return g, nil
}

// Match says whether a valid type or scope is admitted. A type of the gateway's own is, only by a glob that begins
// with the segment "gateway".
func (g Globs) Match(text string) bool {
	if _, ok := g.literals[text]; ok {
		return true
	}
	reserved := g.separator == byte(glob.Dot) && Reserved(text)
	if g.all && !reserved {
		return true
	}
	if len(g.patterns) == 0 {
		return false
	}
	t := cut(text, g.separator)
	for _, p := range g.patterns {
		if (p.ours || !reserved) && p.admits(&t) {
			return true
		}
	}
	return false
}

// Texts returns the globs as they are stored.
func (g Globs) Texts() []string { return g.texts }

// Admits says whether an endpoint may receive an event: "**" admits everything, an event without scopes too; other
// globs admit it if one of its scopes matches one of them, or one of those it has just left (an event that moves a
// thing out of view must reach those who saw it).
func Admits(endpointScopes Globs, scopes, previous []string) bool {
	if endpointScopes.all {
		return true
	}
	for _, s := range scopes {
		if endpointScopes.Match(s) {
			return true
		}
	}
	for _, s := range previous {
		if endpointScopes.Match(s) {
			return true
		}
	}
	return false
}
