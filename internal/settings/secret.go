package settings

import (
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
)

// hidden is what a secret prints as.
const hidden = "[redacted]"

// Secret is a value that no log, error, print or JSON shows. The zero value is an unset one.
type Secret struct{ text string }

// NewSecret wraps a text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text itself. Hand it only to what needs it.
func (s Secret) Reveal() string { return s.text }

// IsSet says whether there is a text.
func (s Secret) IsSet() bool { return s.text != "" }

// String hides the text; an unset secret prints as nothing.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return hidden
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return "settings.Secret(" + s.String() + ")" }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON hides the text from JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// databaseSummary tells which database a URL or DSN points at and nothing more: it is built from the host, the
// port and the name, never by cutting secrets out of the text, so what it does not understand it does not show.
func databaseSummary(text string) string {
	if text == "" {
		return ""
	}
	if u, err := url.Parse(text); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		out := url.URL{Host: u.Host, Path: u.Path}
		text := strings.TrimPrefix(out.String(), "//")
		if u.User != nil {
			text = "***@" + text
		}
		return u.Scheme + "://" + text
	}
	var shown []string
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		if key == "host" || key == "port" || key == "dbname" {
			if strings.ContainsAny(value, `'"\`) {
				return hidden // quoted values may hold spaces, and so the start of another one
			}
			shown = append(shown, word)
		}
	}
	if len(shown) == 0 || strings.ContainsAny(text, `'"\`) {
		return hidden
	}
	return strings.Join(append(shown, "***"), " ")
}
