package main_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	gateway "github.com/sallyport-dev/sallyport/cmd/gateway"
)

// words is what a running command writes to standard error.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // holds one token after each write
}

func newWords() *words { return &words{more: make(chan struct{}, 1)} }

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await returns the first match of a pattern once it is written; the run is dead if it ends before that.
func (w *words) await(t *testing.T, r *running, pattern string) []string {
	t.Helper()
	find := regexp.MustCompile(pattern)
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		if m := find.FindStringSubmatch(w.String()); m != nil {
			return m
		}
		select {
		case <-w.more:
		case <-r.ended:
			if m := find.FindStringSubmatch(w.String()); m != nil {
				return m
			}
			t.Fatalf("it ended with %d and never said %q:\n%s", r.code, pattern, w.String())
		case <-limit.C:
			t.Fatalf("it never said %q:\n%s", pattern, w.String())
		}
	}
}

// running is a command that goes on until it is told to end.
type running struct {
	words *words
	data  *words
	stop  context.CancelFunc // as Ctrl-C
	ended chan struct{}
	code  int // once ended
}

// background runs a command beside the test, which ends it at the latest.
func background(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{words: newWords(), data: newWords(), stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.code = gateway.Run(ctx, gateway.Process{Args: args, Env: env, Stdin: strings.NewReader(""), Stdout: r.data, Stderr: r.words})
	}()
	t.Cleanup(func() { cancel(); <-r.ended })
	return r
}

// end tells a command to end and returns its exit code.
func (r *running) end() int {
	r.stop()
	<-r.ended
	return r.code
}

func TestServe(t *testing.T) {
	t.Parallel()
	env := append(operatorsDesk(t), "GATEWAY_OPS_LISTEN=127.0.0.1:0", "GATEWAY_LISTEN=127.0.0.1:0", "GATEWAY_ALLOW_HTTP=true")
	r := background(t, env, "serve", "--workers", "10")
	at := r.words.await(t, r, `msg=serving .*ops=(\S+) api=(\S+)`)
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for _, url := range []string{"http://" + at[1] + "/livez", "http://" + at[2] + "/openapi.yaml"} {
		res, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("%s answered %d", url, res.StatusCode)
		}
	}
	text := r.words.String()
	for _, want := range []string{`WORKERS="10 from --workers"`, `SECRET_KEYS="[redacted] from GATEWAY_SECRET_KEYS"`, "ALLOW_HTTP is on"} {
		if !strings.Contains(text, want) {
			t.Errorf("at its start it does not say %s:\n%s", want, text)
		}
	}
	if code := r.end(); code != 0 {
		t.Errorf("exit %d:\n%s", code, r.words)
	}
}

func TestServeTellsWhyItCannot(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	env := append(operatorsDesk(t), "GATEWAY_OPS_LISTEN=127.0.0.1:0")
	got := command(t, env, "serve", "--listen", taken.Addr().String())
	if got.code != 1 || !strings.Contains(got.stderr, "cannot listen at LISTEN "+taken.Addr().String()) {
		t.Errorf("a port that is taken: exit %d, %q", got.code, got.stderr)
	}
	must(t, env, "migrate", "down", "--yes")
	got = command(t, env, "serve", "--listen", "127.0.0.1:0")
	if got.code != 1 || !strings.Contains(got.stderr, "run: gateway migrate up") {
		t.Errorf("a schema that is missing: exit %d, %q", got.code, got.stderr)
	}
}
