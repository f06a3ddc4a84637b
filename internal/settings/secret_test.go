package settings_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/settings"
)

func TestASecretNeverPrints(t *testing.T) {
	t.Parallel()
	const planted = "hunter2"
	s, err := settings.Load(settings.Sources{
		Flags: map[string]string{"secret-keys": "k1:" + planted},
		Env:   []string{"GATEWAY_DATABASE_URL=postgres://user:" + planted + "@db:5432/gateway?password=" + planted},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q", s, s, s, s.SecretKeys, s.SecretKeys)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("settings", "keys", s.SecretKeys, "url", s.DatabaseURL, "all", s)
	if err := json.NewEncoder(&out).Encode(s); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&out, s.Entries(), s.Warnings())
	if strings.Contains(out.String(), planted) {
		t.Errorf("a secret is shown:\n%s", out.String())
	}
	if !strings.Contains(strings.Join(s.Warnings(), "\n"), "SECRET_KEYS is on the command line") {
		t.Error("a secret in a flag is not warned of")
	}
	if got := s.SecretKeys.Reveal(); got != "k1:"+planted {
		t.Errorf("Reveal gave %q", got)
	}
}

func TestADatabaseShowsItsPlaceAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"postgres://user:hunter2@db:5432/gateway?password=hunter2": "postgres://***@db:5432/gateway",
		"postgresql://db/gateway":                                  "postgresql://db/gateway",
		"postgres://user:hunt%er2@db/x":                            "[redacted]", // does not parse
		"host=/run/pg user=u password=hunter2 dbname=x":            "host=/run/pg dbname=x ***",
		"host=db password='hun host=ter2' dbname=x":                "[redacted]",
		`host=db password=hun\ dbname=ter2`:                        "[redacted]",
		"password=hunter2":                                         "[redacted]",
	}
	for url, want := range tests {
		s, err := settings.Load(settings.Sources{Fixed: map[string]string{"DATABASE_URL": url}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Entries() {
			if e.Name == "DATABASE_URL" && e.Value != want {
				t.Errorf("%q prints %q, want %q", url, e.Value, want)
			}
		}
	}
}
