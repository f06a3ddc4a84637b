package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const envPrefix = "GATEWAY_"

// AdminAudience is the audience of an operator's tokens. It is no setting: a token is never both.
const AdminAudience = "gateway-admin"

// notSettings are the names in the environment that begin like a setting and are read by somebody else:
// the path of the file, and where internal/localpg finds PostgreSQL's programs.
var notSettings = [...]string{envPrefix + "CONFIG", envPrefix + "PG_BIN"}

// Sources is where settings are read from. Each may be empty.
type Sources struct {
	Fixed    map[string]string // what the command decides itself, by setting name; it beats everything
	Flags    map[string]string // the flags that were given, by flag name
	Env      []string          // as os.Environ; an empty value counts as not set
	File     File
	Defaults map[string]string // what the command prefers to the table's default, by setting name

	// ReadFile reads the file that a secret lies in, as os.ReadFile.
	ReadFile func(path string) ([]byte, error)
}

// File is a parsed settings file. A list is handed over with commas between its elements.
type File struct {
	Path    string
	Entries []FileEntry
}

// FileEntry is one key of a file.
type FileEntry struct {
	Key, Value string
	Line       int
}

// Source is the kind of place that a value came from.
type Source string

// The sources, the weakest last.
const (
	FromCommand     Source = "command"
	FromFlag        Source = "flag"
	FromEnvironment Source = "environment"
	FromFile        Source = "file"
	FromDefault     Source = "default"
)

// Origin is where a value came from: the kind of place, and the exact one as its user would look for it.
type Origin struct {
	Source Source
	At     string // --relay-poll, GATEWAY_RELAY_POLL, gateway.yaml:12
}

// String is the origin as the end of a sentence: "from GATEWAY_RELAY_POLL", "by default".
func (o Origin) String() string {
	switch o.Source {
	case FromDefault:
		return "by default"
	case FromCommand:
		return "set by the command"
	default:
		return "from " + o.At
	}
}

// given is a text for a setting, and where it stood.
type given struct {
	text   string
	origin Origin
}

// Load reads every setting from its strongest source. The settings it returns are always whole; with an error,
// which is then a Problems, a setting with a problem has its default.
func Load(src Sources) (*Settings, error) {
	s := &Settings{origins: make(map[string]Origin)}
	l := loader{src: src, settings: s, bad: make(map[string]bool)}
	l.unknown()
	for _, t := range s.table() {
		s.origins[t.name] = Origin{Source: FromDefault}
		if bad := t.value.set(t.preset); bad != nil && t.preset != "" {
			panic("settings: the default of " + t.name + " " + bad.what)
		}
		g, found := l.find(t)
		if !found {
			continue
		}
		if bad := t.value.set(g.text); bad != nil {
			l.bad[t.name] = true
			l.problems = append(l.problems, Problem{t.name, quoted(t, g.text) + bad.what, g.origin.String(), bad.do})
			continue
		}
		s.origins[t.name] = g.origin
	}
	l.problems = append(l.problems, s.contradictions(l.bad)...)
	if len(l.problems) > 0 {
		return s, l.problems
	}
	return s, nil
}

// quoted shows a text that is no secret, before what is wrong with it.
func quoted(t setting, text string) string {
	if t.secret {
		return ""
	}
	if len(text) > 100 {
		text = text[:100] + "…"
	}
	return fmt.Sprintf("%q ", text)
}

type loader struct {
	src      Sources
	settings *Settings
	bad      map[string]bool // settings whose value did not parse: no rule speaks of them
	problems Problems
}

// find looks for a setting in all sources, the strongest first.
func (l *loader) find(t setting) (given, bool) {
	if text, ok := l.src.Fixed[t.name]; ok {
		return given{text, Origin{Source: FromCommand}}, true
	}
	for _, look := range []func(setting, string) (given, bool){l.flag, l.environment, l.file} {
		g, ok := look(t, "")
		if t.secret {
			inFile, also := look(t, "_FILE")
			if ok && also {
				l.fail(t, "is given twice", fmt.Sprintf("%s and %s", g.origin.At, inFile.origin.At), "Leave one of the two out.")
				return given{}, false
			}
			if also {
				return l.read(t, inFile)
			}
		}
		if ok {
			return g, true
		}
	}
	if text, ok := l.src.Defaults[t.name]; ok {
		return given{text, Origin{Source: FromDefault}}, true
	}
	return given{}, false
}

func (l *loader) fail(t setting, what, where, do string) {
	l.bad[t.name] = true
	l.problems = append(l.problems, Problem{t.name, what, where, do})
}

// read takes the text of a secret from the file that a source names.
func (l *loader) read(t setting, path given) (given, bool) {
	data, err := l.src.ReadFile(path.text)
	if err != nil {
		l.fail(t, "cannot be read: "+err.Error(), path.origin.String(), "Check the path and who may read it.")
		return given{}, false
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		l.fail(t, fmt.Sprintf("is empty in %s", path.text), path.origin.String(), "Put the secret into the file, or leave the setting out.")
		return given{}, false
	}
	return given{text, path.origin}, true
}

func (l *loader) flag(t setting, suffix string) (given, bool) {
	name := t.flag() + strings.ReplaceAll(strings.ToLower(suffix), "_", "-")
	text, ok := l.src.Flags[name]
	return given{text, Origin{FromFlag, "--" + name}}, ok
}

func (l *loader) environment(t setting, suffix string) (given, bool) {
	if g, ok := l.variable(t.env() + suffix); ok {
		return g, true
	}
	if t.name == "DATABASE_URL" {
		// What platforms set by themselves. It never beats a variable of ours, in whichever form.
		if _, ours := l.variable(t.env() + "_FILE"); !ours && suffix == "" {
			return l.variable(t.name)
		}
	}
	return given{}, false
}

func (l *loader) variable(name string) (given, bool) {
	for _, pair := range l.src.Env {
		if key, text, _ := strings.Cut(pair, "="); key == name && text != "" {
			return given{text, Origin{FromEnvironment, name}}, true
		}
	}
	return given{}, false
}

func (l *loader) file(t setting, suffix string) (given, bool) {
	key := t.key() + strings.ToLower(suffix)
	for _, e := range l.src.File.Entries {
		if e.Key == key {
			return given{e.Value, Origin{FromFile, l.at(e)}}, true
		}
	}
	return given{}, false
}

func (l *loader) at(e FileEntry) string { return fmt.Sprintf("%s:%d", l.src.File.Path, e.Line) }

// unknown finds the names in the environment and the file that are no setting's. Unknown flags are refused where
// flags are parsed.
func (l *loader) unknown() {
	var envs, keys []string
	for _, t := range l.settings.table() {
		envs, keys = append(envs, t.env()), append(keys, t.key())
		if t.secret {
			envs, keys = append(envs, t.env()+"_FILE"), append(keys, t.key()+"_file")
		}
	}
	for _, pair := range l.src.Env {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(envs, name) ||
			slices.Contains(notSettings[:], name) || serviceLink(name, text) {
			continue
		}
		l.problems = append(l.problems, unknownName(name, "in the environment", envs))
	}
	seen := make(map[string]int)
	for _, e := range l.src.File.Entries {
		if line, twice := seen[e.Key]; twice {
			l.problems = append(l.problems, Problem{e.Key, fmt.Sprintf("stands in the file twice, first in line %d", line), "from " + l.at(e), "Leave one of the two out."})
			continue
		}
		seen[e.Key] = e.Line
		if !slices.Contains(keys, e.Key) {
			l.problems = append(l.problems, unknownName(e.Key, "in "+l.at(e), keys))
		}
	}
}

func unknownName(name, where string, known []string) Problem {
	do := "Leave it out; docs/settings.md has every name."
	if near := Nearest(name, known); near != "" {
		do = "Did you mean " + near + "?"
	}
	return Problem{name, "is not a setting", where, do}
}

// linkName matches what Kubernetes puts into the environment of a pod beside a Service called gateway or gateway-….
var linkName = regexp.MustCompile(`^GATEWAY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// linkPort matches the names among them that end in _PORT and hold a bare number.
var linkPort = regexp.MustCompile(`_(SERVICE|TCP|UDP|SCTP)_PORT$`)

// serviceLink says whether a variable is such a link and no attempt at a setting.
func serviceLink(name, text string) bool {
	if !linkName.MatchString(name) {
		return false
	}
	return !strings.HasSuffix(name, "_PORT") || linkPort.MatchString(name) || strings.Contains(text, "://")
}
