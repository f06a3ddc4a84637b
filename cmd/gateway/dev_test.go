package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// home is a data directory that PostgreSQL's own user can enter, as t.TempDir's can't be by root's.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gateway-dev-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "data")
}

func TestDev(t *testing.T) {
	t.Parallel()
	dir := home(t)
	// Not at the ports that a developer may be using right now.
	args := []string{"dev", "--data-dir", dir, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}

	first := background(t, nil, args...)
	at := first.words.await(t, first, `export GATEWAY=(\S+)\n\s+export TOKEN=(\S+)`)
	url, token := at[1], at[2]
	if code := command(t, nil, args...); code.code != 1 || !strings.Contains(code.stderr, "is in use by process") {
		t.Errorf("a second run on the same data: exit %d, %q", code.code, code.stderr)
	}
	if beside := command(t, nil, "dev", "--once", "-q"); beside.code != 0 {
		t.Errorf("a run beside it, on data of its own: exit %d, %q", beside.code, beside.stderr)
	}
	keys, err := os.Stat(filepath.Join(dir, "secret-keys"))
	if err != nil {
		t.Fatal(err)
	}
	if mode := keys.Mode().Perm(); mode != 0o600 {
		t.Errorf("the key ring can be read by others: %o", mode)
	}

	// What the curl line does.
	req, err := http.NewRequest("POST", url+"/v1/events", strings.NewReader(`{"type":"order.shipped","data":{"n":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 202 {
		t.Errorf("the post answered %d", res.StatusCode)
	}
	first.words.await(t, first, `delivery verified .*order\.shipped`)
	if code := first.end(); code != 0 {
		t.Errorf("Ctrl-C: exit %d:\n%s", code, first.words)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); err == nil {
		t.Error("PostgreSQL is still there")
	}

	began := time.Now()
	again := background(t, nil, args...)
	again.words.await(t, again, `delivery recorded`)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("warm start to verified delivery took %s, more than 10 s", took)
	}
	again.words.await(t, again, `tenant found`)
	again.words.await(t, again, `endpoint replaced`)
	if code := again.end(); code != 0 {
		t.Errorf("Ctrl-C: exit %d:\n%s", code, again.words)
	}
}

func TestDevOnceInJSON(t *testing.T) {
	t.Parallel()
	got := command(t, nil, "dev", "--once", "--json")
	if got.code != 0 {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	var steps []string
	for line := range strings.Lines(got.stdout) {
		var s struct{ Step string }
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		steps = append(steps, s.Step)
	}
	want := "postgres started, schema ready, gateway serving, tenant created, token created, endpoint created, " +
		"event committed, delivery verified, delivery recorded, gateway stopped, postgres stopped"
	if text := strings.Join(steps, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestDevTellsOfSettingsBeforeItStartsAnything(t *testing.T) {
	t.Parallel()
	dir := home(t)
	got := command(t, nil, "dev", "--data-dir", dir, "--relay-poll", "1h")
	if got.code != 2 || !strings.Contains(got.stderr, "RELAY_POLL must be at most 2s") {
		t.Errorf("exit %d, %q", got.code, got.stderr)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the data directory was made")
	}
}
