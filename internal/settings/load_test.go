package settings_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/settings"
)

// load reads settings from an environment alone.
func load(env ...string) (*settings.Settings, error) {
	return settings.Load(settings.Sources{Env: env, ReadFile: os.ReadFile})
}

// problem is the only line of an error.
func problem(t *testing.T, err error) string {
	t.Helper()
	var all settings.Problems
	if !errors.As(err, &all) {
		t.Fatalf("error %v, want problems", err)
	}
	if len(all) != 1 {
		t.Fatalf("%d problems, want 1:\n%v", len(all), err)
	}
	return all[0].Error()
}

func TestDefaultsHoldTogether(t *testing.T) {
	t.Parallel()
	s, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if got := len(s.RetrySchedule); got != 17 {
		t.Errorf("%d gaps, want 17", got)
	}
	if got := s.RetryWindow(); got != 127*time.Hour+35*time.Minute+5*time.Second {
		t.Errorf("18 tries span %s, want 127h35m5s", got)
	}
	if got := s.LongestGap(); got != 10*time.Hour {
		t.Errorf("longest gap %s, want 10h", got)
	}
	for _, e := range s.Entries() {
		if e.Value != e.Default {
			t.Errorf("%s prints %q, and its default is written %q: give it the printed form", e.Name, e.Value, e.Default)
		}
		if e.Origin.Source != settings.FromDefault {
			t.Errorf("%s is %s, want by default", e.Name, e.Origin)
		}
	}
	if w := s.Warnings(); len(w) != 0 {
		t.Errorf("the defaults warn: %v", w)
	}
}

func TestAStrongerSourceWins(t *testing.T) {
	t.Parallel()
	all := settings.Sources{
		Fixed:    map[string]string{"WORKERS": "1"},
		Flags:    map[string]string{"workers": "2"},
		Env:      []string{"GATEWAY_WORKERS=3"},
		File:     settings.File{Path: "gateway.yaml", Entries: []settings.FileEntry{{Key: "workers", Value: "4", Line: 7}}},
		Defaults: map[string]string{"WORKERS": "5"},
	}
	steps := []struct {
		weaken func(*settings.Sources)
		want   int
		origin string
	}{
		{func(*settings.Sources) {}, 1, "set by the command"},
		{func(s *settings.Sources) { s.Fixed = nil }, 2, "from --workers"},
		{func(s *settings.Sources) { s.Flags = nil }, 3, "from GATEWAY_WORKERS"},
		{func(s *settings.Sources) { s.Env = []string{"GATEWAY_WORKERS="} }, 4, "from gateway.yaml:7"},
		{func(s *settings.Sources) { s.File = settings.File{} }, 5, "by default"},
		{func(s *settings.Sources) { s.Defaults = nil }, 1000, "by default"},
	}
	for _, step := range steps {
		step.weaken(&all)
		s, err := settings.Load(all)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Origin("WORKERS").String(); s.Workers != step.want || got != step.origin {
			t.Errorf("%d %s, want %d %s", s.Workers, got, step.want, step.origin)
		}
	}
}

func TestEverySettingIsReadFromEverySource(t *testing.T) {
	t.Parallel()
	for _, e := range settings.List() {
		value := e.Default
		switch {
		case e.Name == "DATABASE_URL", e.Name == "DATABASE_DIRECT_URL":
			value = "postgres://db/gateway"
		case e.Name == "SECRET_KEYS":
			value = "k1:AAAA"
		case e.Name == "EGRESS_RESOLVER":
			value = "10.0.0.2:53"
		case value == "":
			value = "https://example.com"
		}
		sources := map[settings.Source]settings.Sources{
			settings.FromFlag:        {Flags: map[string]string{e.Flag: value}},
			settings.FromEnvironment: {Env: []string{e.Env + "=" + value}},
			settings.FromFile:        {File: settings.File{Path: "f", Entries: []settings.FileEntry{{Key: e.Key, Value: value, Line: 1}}}},
		}
		for want, src := range sources {
			if e.Name == "DATABASE_DIRECT_URL" {
				src.Fixed = map[string]string{"DATABASE_URL": "postgres://db/gateway"}
			}
			s, err := settings.Load(src)
			if err != nil {
				t.Errorf("%s from the %s: %v", e.Name, want, err)
			} else if got := s.Origin(e.Name).Source; got != want {
				t.Errorf("%s came from the %s, want the %s", e.Name, got, want)
			}
		}
	}
}

func TestDatabaseURLFallsBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "url")
	if err := os.WriteFile(file, []byte("postgres://c/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		env  []string
		want string
	}{
		"plain name alone":            {[]string{"DATABASE_URL=postgres://a/x"}, "postgres://a/x"},
		"ours beats it":               {[]string{"DATABASE_URL=postgres://a/x", "GATEWAY_DATABASE_URL=postgres://b/x"}, "postgres://b/x"},
		"ours in a file beats it too": {[]string{"DATABASE_URL=postgres://a/x", "GATEWAY_DATABASE_URL_FILE=" + file}, "postgres://c/x"},
		"an empty one is not set":     {[]string{"DATABASE_URL=postgres://a/x", "GATEWAY_DATABASE_URL="}, "postgres://a/x"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := load(test.env...)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.DatabaseURL.Reveal(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if got := s.DirectURL().Reveal(); got != test.want {
				t.Errorf("direct %q, want the same", got)
			}
		})
	}
}

func TestSecretsInFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"/keys": "k1:AAAA\r\n", "/empty": "\n"}
	read := func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	good := map[string]settings.Sources{
		"GATEWAY_SECRET_KEYS_FILE": {Env: []string{"GATEWAY_SECRET_KEYS_FILE=/keys"}},
		"--secret-keys-file":       {Flags: map[string]string{"secret-keys-file": "/keys"}},
		"f:3":                      {File: settings.File{Path: "f", Entries: []settings.FileEntry{{Key: "secret_keys_file", Value: "/keys", Line: 3}}}},
	}
	for at, src := range good {
		src.ReadFile = read
		s, err := settings.Load(src)
		if err != nil {
			t.Errorf("%s: %v", at, err)
		} else if s.SecretKeys.Reveal() != "k1:AAAA" || s.Origin("SECRET_KEYS").At != at {
			t.Errorf("%q from %s, want the file's text without its line end, from %s", s.SecretKeys.Reveal(), s.Origin("SECRET_KEYS").At, at)
		}
	}
	bad := map[string][]string{
		"cannot be read": {"GATEWAY_SECRET_KEYS_FILE=/nowhere"},
		"is empty":       {"GATEWAY_SECRET_KEYS_FILE=/empty"},
		"given twice":    {"GATEWAY_SECRET_KEYS_FILE=/keys", "GATEWAY_SECRET_KEYS=k2:topsecret"},
	}
	for want, env := range bad {
		_, err := settings.Load(settings.Sources{Env: env, ReadFile: read})
		if got := problem(t, err); !strings.Contains(got, want) || strings.Contains(got, "topsecret") {
			t.Errorf("got %q, want it to say %q and no secret", got, want)
		}
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		src  settings.Sources
		want string
	}{
		"a slip in the environment": {settings.Sources{Env: []string{"GATEWAY_RELAY_PLOL=1s"}},
			"GATEWAY_RELAY_PLOL is not a setting (in the environment). Did you mean GATEWAY_RELAY_POLL?"},
		"a slip in the file": {settings.Sources{File: settings.File{Path: "/etc/g.yaml", Entries: []settings.FileEntry{{Key: "worker", Value: "1", Line: 2}}}},
			"worker is not a setting (in /etc/g.yaml:2). Did you mean workers?"},
		"nothing near": {settings.Sources{Env: []string{"GATEWAY_COLOUR_OF_THE_BIKESHED=red"}},
			"GATEWAY_COLOUR_OF_THE_BIKESHED is not a setting (in the environment). Leave it out; docs/settings.md has every name."},
		"capitals in the file": {settings.Sources{File: settings.File{Path: "f", Entries: []settings.FileEntry{{Key: "WORKERS", Value: "1", Line: 2}}}},
			"WORKERS is not a setting (in f:2). Did you mean workers?"},
		"a key twice": {settings.Sources{File: settings.File{Path: "f", Entries: []settings.FileEntry{{Key: "workers", Value: "1", Line: 2}, {Key: "workers", Value: "2", Line: 5}}}},
			"workers stands in the file twice, first in line 2 (from f:5). Leave one of the two out."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := settings.Load(test.src)
			if got := problem(t, err); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	t.Run("names of others are let pass", func(t *testing.T) {
		t.Parallel()
		_, err := load("GATEWAY_CONFIG=x", "GATEWAY_PG_BIN=/usr/bin", "HOME=/root", "MY_GATEWAY_X=1",
			"GATEWAY_SERVICE_HOST=10.1.2.3", "GATEWAY_SERVICE_PORT=80", "GATEWAY_SERVICE_PORT_HTTP=80",
			"GATEWAY_PORT=tcp://10.1.2.3:80", "GATEWAY_PORT_80_TCP=tcp://10.1.2.3:80", "GATEWAY_PORT_80_TCP_PROTO=tcp",
			"GATEWAY_PORT_80_TCP_PORT=80", "GATEWAY_PORT_80_TCP_ADDR=10.1.2.3",
			"GATEWAY_OPS_SERVICE_HOST=10.1.2.3", "GATEWAY_OPS_PORT=tcp://10.1.2.3:80")
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("but not a setting that someone hoped for", func(t *testing.T) {
		t.Parallel()
		_, err := load("GATEWAY_PORT=8080")
		problem(t, err)
	})
}

func TestBadValues(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // the variable without its prefix: what the problem says
		"WORKERS=many":                         `WORKERS "many" is not a whole number (from GATEWAY_WORKERS). Write digits, as 1000.`,
		"WORKERS=0":                            "is less than 1",
		"WORKERS=10001":                        "is more than 10000",
		"RELAY_POLL=5 seconds":                 `RELAY_POLL "5 seconds" is not a time (from GATEWAY_RELAY_POLL). Write it as 500ms, 90s, 15m or 168h.`,
		"RELAY_POLL=2":                         "is not a time",
		"RELAY_POLL=0s":                        "is no time at all",
		"RELAY_POLL=-1s":                       "is no time at all",
		"ROTATION_GRACE=-1s":                   "is less than 0s",
		"ROTATION_GRACE=169h":                  "is more than 168h",
		"RELAY_BACKOFF=2s":                     "is not a range",
		"RELAY_BACKOFF=1m..2s":                 "begins with the longer one",
		"RELAY_BACKOFF=..2s":                   "begins with what is not a time",
		"RELAY_BACKOFF=2s..x":                  "ends with what is not a time",
		"RETRY_JITTER=0.6":                     "is more than 0.5",
		"RETRY_JITTER=NaN":                     "is not a number",
		"RETRY_JITTER=ten":                     "is not a number",
		"RETRY_SCHEDULE=5s,,soon":              "has a gap that is not a time",
		"RETRY_SCHEDULE=10h*0":                 "number of repeats is less than 1",
		"RETRY_SCHEDULE=10h*1000,10h*1000":     "has too many gaps",
		"BACKLOG_ALERT=1000":                   "has 1 parts of 2",
		"BACKLOG_ALERT=0,5m":                   "is wrong in part 1",
		"INTERNAL_BACKOFF=1m..1h":              "has 1 parts of 2",
		"EGRESS_OUTAGE=20,1.5,1h":              "is wrong in part 2",
		"RECONCILE=1m":                         "has 1 parts of 2",
		"EGRESS_PORTS=0":                       "not a port",
		"EGRESS_PORTS=90-80":                   "not a port",
		"EGRESS_PORTS=65536":                   "not a port",
		"EGRESS_PORTS=,":                       "names no port",
		"EGRESS_RESOLVER=dns.example.com:53":   "is not an IP address and a port",
		"EGRESS_RESOLVER=10.0.0.2":             "is not an IP address and a port",
		"ALLOW_HTTP=maybe":                     "is neither true nor false",
		"LISTEN=8080":                          "is not an address to listen on",
		"LISTEN=:http":                         "is not an address to listen on",
		"LISTEN=:70000":                        "is not an address to listen on",
		"ROLES=api,cook":                       "has a word that is not known",
		"ROLES=api,api":                        "names one twice",
		"ROLES=,":                              "names none",
		"PUBLIC_URL=hooks.example.com":         "is not a plain http or https URL",
		"PUBLIC_URL=https://u:pw@example.com":  "is not a plain http or https URL",
		"PUBLIC_URL=https://example.com/?a=b":  "is not a plain http or https URL",
		"CORS_ORIGINS=*":                       "is not an origin",
		"CORS_ORIGINS=https://example.com/app": "is not an origin",
		"AUTH_ISSUER= x":                       "is empty or begins or ends with a space",
		"LOG_LEVEL=loud":                       "is not a level",
		"LOG_FORMAT=xml":                       "is not known",
	}
	for pair, want := range tests {
		t.Run(pair, func(t *testing.T) {
			t.Parallel()
			s, err := load("GATEWAY_" + pair)
			if got := problem(t, err); !strings.Contains(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			name, _, _ := strings.Cut(pair, "=")
			if got := s.Origin(name).Source; got != settings.FromDefault {
				t.Errorf("the setting is from the %s, want its default", got)
			}
		})
	}
}

func TestGoodValues(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // what is given: what it prints as
		"WORKERS=1_000":                       "1000",
		"RELAY_POLL=1500ms":                   "1.5s",
		"RETENTION_EVENTS=240h30m":            "240h30m",
		"ROTATION_GRACE=0s":                   "0s",
		"RETRY_JITTER=0":                      "0",
		"EGRESS_PORTS=443, 8000-8100":         "443,8000-8100",
		"EGRESS_ALLOW=10.1.0.0/16 ,10.2.0.1":  "10.1.0.0/16,10.2.0.1",
		"EGRESS_RESOLVER=[fd00::2]:53":        "[fd00::2]:53",
		"ALLOW_HTTP=1":                        "true",
		"LISTEN=[::1]:0":                      "[::1]:0",
		"ROLES=worker":                        "worker",
		"PUBLIC_URL=https://example.com/api/": "https://example.com/api",
		"CORS_ORIGINS=https://a.example,http://localhost:3000": "https://a.example,http://localhost:3000",
		"LOG_LEVEL=debug":                     "debug",
		"RETRY_SCHEDULE=1s*5,2s,2s,3s,4s*9":   "1s*5,2s*2,3s,4s*9",
		"DATABASE_URL=postgres://u:p@db/name": "postgres://***@db/name",
	}
	for pair, want := range tests {
		t.Run(pair, func(t *testing.T) {
			t.Parallel()
			s, err := load("GATEWAY_"+pair, "GATEWAY_RETRY_AFTER_MAX=1s", "GATEWAY_DISABLE_AFTER=20s", "GATEWAY_DISABLE_MAX_GAP=19s",
				"GATEWAY_FAILING_DELAY=1s", "GATEWAY_BREAKER_COOLDOWN=1s..2s")
			if err != nil && !strings.HasPrefix(pair, "RETRY_SCHEDULE") {
				// The schedule of ten hours does not go with the seconds above; the others are judged alone.
				s, err = load("GATEWAY_" + pair)
			}
			if err != nil {
				t.Fatal(err)
			}
			name, _, _ := strings.Cut(pair, "=")
			for _, e := range s.Entries() {
				if e.Name == name && e.Value != want {
					t.Errorf("prints %q, want %q", e.Value, want)
				}
			}
		})
	}
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := load("GATEWAY_RELAY_POLL=soon", "GATEWAY_WORKRES=5", "GATEWAY_RESCUE_AFTER=1s", "GATEWAY_DATABASE_POOL=3")
	var all settings.Problems
	if !errors.As(err, &all) {
		t.Fatalf("error %v, want problems", err)
	}
	text := all.Error()
	for _, want := range []string{"GATEWAY_WORKRES", "RELAY_POLL", "RESCUE_AFTER", "DATABASE_POOL"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
	for i, line := range strings.Split(text, "\n") {
		if line != all[min(i, len(all)-1)].Error() {
			t.Errorf("line %d is not one problem: %q", i, line)
		}
	}
}

func TestRequire(t *testing.T) {
	t.Parallel()
	s, err := load("GATEWAY_SECRET_KEYS=k1:AAAA")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Require("SECRET_KEYS"); err != nil {
		t.Errorf("a setting that is there is missed: %v", err)
	}
	got := problem(t, s.Require("SECRET_KEYS", "DATABASE_URL"))
	if want := "DATABASE_URL is not set. Set GATEWAY_DATABASE_URL or GATEWAY_DATABASE_URL_FILE."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAFastClockHolds(t *testing.T) {
	t.Parallel()
	// Every time of the defaults, a thousand times shorter: five days in seven minutes.
	var env []string
	for _, e := range settings.List() {
		if !strings.Contains(e.Form, "time") && e.Form != "rows,age" && e.Form != "endpoints,share,window" {
			continue
		}
		env = append(env, e.Env+"="+thousandth(t, e.Default))
	}
	if len(env) < 25 {
		t.Fatalf("only %d settings hold a time", len(env))
	}
	s, err := load(env...)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.RetryWindow(), 459305*time.Millisecond; got != want {
		t.Errorf("the schedule spans %s, want %s", got, want)
	}
}

// thousandth shortens every time in a text.
func thousandth(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	for text != "" {
		end := strings.IndexAny(text, ",.*")
		if _, err := time.ParseDuration(text); err == nil {
			end = len(text)
		}
		if end < 0 {
			end = len(text)
		}
		part := text[:end]
		if d, err := time.ParseDuration(part); err == nil && d > 0 {
			part = (d / 1000).String()
		}
		out.WriteString(part)
		text = text[end:]
		for text != "" && strings.ContainsRune(",.*", rune(text[0])) {
			out.WriteByte(text[0])
			text = text[1:]
		}
	}
	return out.String()
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"serve", "migrate", "token"}
	for name, want := range map[string]string{"sevre": "serve", "migrat": "migrate", "tokens": "token", "x": "", "Serve": "serve", "": ""} {
		if got := settings.Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDocsAreFresh(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != settings.Docs() {
		t.Error("docs/settings.md is stale: run make generate")
	}
}

func ExampleLoad() {
	_, err := settings.Load(settings.Sources{Env: []string{"GATEWAY_RELAY_POLL=5s", "GATEWAY_WORKER=8"}})
	fmt.Println(err)
	// Output:
	// GATEWAY_WORKER is not a setting (in the environment). Did you mean GATEWAY_WORKERS?
	// RELAY_POLL must be at most 2s, since a notification that wakes the relay can be lost (RELAY_POLL 5s from GATEWAY_RELAY_POLL). Lower RELAY_POLL to 2s or less.
}
