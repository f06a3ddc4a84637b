package settings

import (
	"fmt"
	"strings"
)

// Entry is one setting as it is shown: with its names, its value in this process and where that came from.
type Entry struct {
	Group   string
	Name    string // RELAY_POLL
	Flag    string // relay-poll
	Key     string // relay_poll
	Env     string // GATEWAY_RELAY_POLL
	Form    string // how a value is written
	About   string
	Default string // empty: none
	Secret  bool
	Value   string // a secret's is hidden
	Origin  Origin
}

// Entries is every setting, in the order of the docs. Secrets are hidden in it.
func (s *Settings) Entries() []Entry {
	var all []Entry
	for _, g := range s.groups() {
		for _, t := range g.settings {
			all = append(all, Entry{
				Group: g.title, Name: t.name, Flag: t.flag(), Key: t.key(), Env: t.env(), Form: t.value.form(),
				About: t.told(), Default: t.preset, Secret: t.secret, Value: t.value.text(), Origin: s.origins[t.name],
			})
		}
	}
	return all
}

// List is every setting with no value: what flags and docs are made from.
func List() []Entry { return new(Settings).Entries() }

// Origin is where a setting's value came from, by the setting's name.
func (s *Settings) Origin(name string) Origin { return s.origins[name] }

// Docs is the reference of all settings in Markdown, which docs/settings.md holds.
func Docs() string {
	var b strings.Builder
	b.WriteString(docsHead)
	title := ""
	for _, e := range List() {
		if e.Group != title {
			title = e.Group
			fmt.Fprintf(&b, "\n## %s\n\n| Setting | Written as | Default | What it is |\n| --- | --- | --- | --- |\n", title)
		}
		preset := "none"
		if e.Default != "" {
			preset = "`" + e.Default + "`"
		}
		form := e.Form
		if e.Secret {
			form += ", secret"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.Name, form, preset, e.About)
	}
	return b.String()
}

const docsHead = `# Settings

<!-- Made by ` + "`gateway config docs`" + `; a test holds this page to the program. -->

Every setting has one name. ` + "`RELAY_POLL`" + ` is the flag ` + "`--relay-poll`" + `, the variable ` + "`GATEWAY_RELAY_POLL`" + ` and the key
` + "`relay_poll`" + ` in the file. A value is taken from the first that has it: flag, environment, file, default.
` + "`gateway config print --origin`" + ` shows the values in force and where each came from; it never shows a secret.

- The file is ` + "`gateway.yaml`" + ` in the working directory, or the path in ` + "`--config`" + ` or ` + "`GATEWAY_CONFIG`" + `.
- A list is written with commas between; in the file it may also be a YAML list.
- A time is written as ` + "`500ms`, `90s`, `15m` or `168h`" + `; it may be as short as you like, so that days can be tried in seconds.
- An empty variable counts as not set.
- A secret can also lie in a file of its own: ` + "`GATEWAY_SECRET_KEYS_FILE=/run/secrets/keys`" + `, and likewise
  ` + "`--secret-keys-file`" + ` and ` + "`secret_keys_file`" + `.
- A name that is no setting is refused, and so are values that contradict each other: ` + "`gateway`" + ` then says all that is
  wrong at once and exits with 2.
`
