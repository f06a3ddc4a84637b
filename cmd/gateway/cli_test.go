package main_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gateway "github.com/sallyport-dev/sallyport/cmd/gateway"
)

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// command runs a command with an environment, its words and its data kept apart.
func command(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return commandIn(t, "", env, args...)
}

// commandIn does so with a text on standard input.
func commandIn(t *testing.T, stdin string, env []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := gateway.Run(t.Context(), gateway.Process{Args: args, Env: env, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr})
	return result{code, stdout.String(), stderr.String()}
}

// file writes a file for a test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string // on standard error
	}{
		"no command":                {nil, "gateway needs a command"},
		"a slip in a command":       {[]string{"serv"}, `gateway has no command "serv". Did you mean serve?`},
		"a command of nobody":       {[]string{"dance"}, `gateway has no command "dance", only`},
		"half a command":            {[]string{"migrate"}, "gateway migrate needs a command"},
		"a slip below a command":    {[]string{"migrate", "dwon"}, "Did you mean down?"},
		"a slip in a flag":          {[]string{"config", "print", "--orign"}, "gateway config print has no flag --orign. Did you mean --origin?"},
		"a slip in a setting":       {[]string{"serve", "--relay-pol=1s"}, "gateway serve has no flag --relay-pol. Did you mean --relay-poll?"},
		"a flag of nobody":          {[]string{"version", "--zebra"}, "gateway version has no flag --zebra"},
		"a flag without its value":  {[]string{"keys", "generate", "--id"}, "flag needs an argument"},
		"a word too many":           {[]string{"version", "please"}, `gateway version has no use for "please"`},
		"deleting without a yes":    {[]string{"migrate", "down", "--database-url=postgres:///x"}, "gateway migrate down deletes data. Add --yes"},
		"a name that is no key's":   {[]string{"keys", "generate", "--id", "a:b"}, "a key's name is"},
		"settings that are missing": {[]string{"migrate", "status"}, "DATABASE_URL is not set. Set GATEWAY_DATABASE_URL"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := command(t, nil, test.args...)
			if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit %d, data %q, words:\n%s\nwant exit 2, no data, %q", got.code, got.stdout, got.stderr, test.want)
			}
		})
	}
}

func TestFailuresExitWithOne(t *testing.T) {
	t.Parallel()
	got := command(t, nil, "migrate", "status", "--database-url=postgres://user:hunter2@127.0.0.1:1/x?connect_timeout=2")
	if got.code != 1 || got.stdout != "" {
		t.Errorf("exit %d, data %q, want 1 and none", got.code, got.stdout)
	}
	if lines := strings.Count(got.stderr, "\n"); lines != 1 || !strings.Contains(got.stderr, "127.0.0.1:1") || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("want one line that names the place and no password, got:\n%s", got.stderr)
	}
}

func TestQuietKeepsErrorsAndData(t *testing.T) {
	t.Parallel()
	if got := command(t, nil, "keys", "generate", "-q"); got.code != 0 || got.stderr != "" || got.stdout == "" {
		t.Errorf("%+v, want data and no words", got)
	}
	if got := command(t, nil, "serve", "-q"); got.code != 2 || !strings.Contains(got.stderr, "DATABASE_URL is not set") || strings.Contains(got.stderr, "--help") {
		t.Errorf("%+v, want the error and no advice", got)
	}
}

func TestColourIsForTerminals(t *testing.T) {
	t.Parallel()
	if got := command(t, []string{"TERM=xterm"}, "dance"); strings.Contains(got.stderr, "\x1b") {
		t.Errorf("colour in a pipe: %q", got.stderr)
	}
}

func TestKeysGenerate(t *testing.T) {
	t.Parallel()
	first, second := command(t, nil, "keys", "generate", "--id", "a"), command(t, nil, "keys", "generate", "--id", "b")
	if first.stdout[2:] == second.stdout[2:] {
		t.Error("two keys are alike")
	}
	ring := strings.TrimSpace(first.stdout) + "," + strings.TrimSpace(second.stdout)
	if got := command(t, []string{"GATEWAY_SECRET_KEYS=" + ring}, "config", "print"); got.code != 0 {
		t.Errorf("a ring of both is refused:\n%s", got.stderr)
	}
	var out struct {
		Keys string `json:"secret_keys"`
	}
	if err := json.Unmarshal([]byte(command(t, nil, "keys", "generate", "--json").stdout), &out); err != nil || !strings.Contains(out.Keys, ":") {
		t.Errorf("JSON holds %q, %v", out.Keys, err)
	}
}

func TestConfigPrint(t *testing.T) {
	t.Parallel()
	const planted = "hunter2hunter2hunter2hunter2hunter2hunter2hu="
	path := file(t, "g.yaml", "# how we run it\nworkers: 7\nroles: [api, relay]\nallow_http: true\nretry_jitter: 0.25\n")
	env := []string{"GATEWAY_CONFIG=" + path, "GATEWAY_LISTEN=:9999", "GATEWAY_DATABASE_URL=postgres://u:" + planted + "@db/x"}

	t.Run("shows values and origins, and no secret", func(t *testing.T) {
		t.Parallel()
		got := command(t, env, "config", "print", "--origin", "--relay-poll", "1s")
		for _, want := range []string{
			"workers: 7", "# from " + path + ":2", "roles: api,relay", `listen: ":9999"`, "# from GATEWAY_LISTEN",
			"relay_poll: 1s", "# from --relay-poll", "# database_url: postgres://***@db/x", "# by default",
		} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%q is missing in:\n%s", want, got.stdout)
			}
		}
		if strings.Contains(got.stdout+got.stderr, planted) {
			t.Error("the password is shown")
		}
		if got.code != 0 || !strings.Contains(got.stderr, "warning: ALLOW_HTTP is on") {
			t.Errorf("exit %d, words %q", got.code, got.stderr)
		}
	})
	t.Run("writes a file that means the same", func(t *testing.T) {
		t.Parallel()
		first := command(t, env, "config", "print")
		again := file(t, "again.yaml", first.stdout)
		second := command(t, []string{"GATEWAY_DATABASE_URL=postgres://u:" + planted + "@db/x"}, "config", "print", "--config", again)
		if first.stdout != second.stdout {
			t.Errorf("from\n%s\ncame\n%s%s", first.stdout, second.stdout, second.stderr)
		}
	})
	t.Run("as JSON", func(t *testing.T) {
		t.Parallel()
		got := command(t, env, "config", "print", "--json", "--changed")
		var list []struct{ Name, Value, Source, At string }
		if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
			t.Fatal(err)
		}
		if len(list) != 6 {
			t.Errorf("%d settings are changed, want 6: %v", len(list), list)
		}
	})
	t.Run("tells what is wrong and still prints", func(t *testing.T) {
		t.Parallel()
		got := command(t, []string{"GATEWAY_WORKRES=5", "GATEWAY_RELAY_POLL=3s"}, "config", "print")
		if got.code != 2 || !strings.Contains(got.stdout, "workers: 1000") || strings.Count(got.stderr, "\n") != 2 {
			t.Errorf("exit %d, words:\n%s", got.code, got.stderr)
		}
	})
}

func TestConfigFile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"empty":              {"", ""},
		"comments alone":     {"# nothing\n", ""},
		"values and a list":  {"workers: 5\negress_ports: [443, 8000-8100]\n", ""},
		"not YAML":           {"workers: [", "is not YAML"},
		"a list":             {"- workers\n", "holds no settings"},
		"a level":            {"relay:\n  poll: 1s\n", "relay is neither one value nor a list of values"},
		"a value left out":   {"workers:\n", "workers is neither one value nor a list of values"},
		"a list with levels": {"roles: [[api]]\n", "roles is neither one value"},
		"an unknown key":     {"\nrelay_pol: 1s\n", "relay_pol is not a setting (in %s:2). Did you mean relay_poll?"},
		"a key twice":        {"workers: 1\nworkers: 2\n", "workers stands in the file twice, first in line 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := file(t, "g.yaml", test.text)
			got := command(t, nil, "config", "print", "--config", path)
			want := strings.ReplaceAll(test.want, "%s", path)
			if (want == "") != (got.code == 0) || !strings.Contains(got.stderr, want) {
				t.Errorf("exit %d, words:\n%s\nwant %q", got.code, got.stderr, want)
			}
		})
	}
	t.Run("that is named must be there", func(t *testing.T) {
		t.Parallel()
		got := command(t, []string{"GATEWAY_CONFIG=/nowhere/g.yaml"}, "config", "print")
		if got.code != 2 || !strings.Contains(got.stderr, "/nowhere/g.yaml cannot be read: no such file") {
			t.Errorf("exit %d, words:\n%s", got.code, got.stderr)
		}
	})
}

func TestConfigDocsIsThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	if got := command(t, nil, "config", "docs"); got.stdout != string(page) {
		t.Error("docs/settings.md is stale: run make generate")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if got := command(t, nil, "version"); got.code != 0 || !strings.Contains(got.stdout, "go1.") {
		t.Errorf("%+v", got)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := command(t, nil, "completion", shell); got.code != 0 || !strings.Contains(got.stdout, "gateway") {
			t.Errorf("%s: exit %d, %d bytes", shell, got.code, len(got.stdout))
		}
	}
}

func TestAnEndedContextEndsACommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	p := gateway.Process{Args: []string{"migrate", "up", "--database-url=postgres://127.0.0.1:1/x"}, Stdout: &stdout, Stderr: &stderr}
	if code := gateway.Run(ctx, p); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
}

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
