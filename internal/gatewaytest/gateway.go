package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/signing"
)

// patience bounds each wait for something that must happen.
const patience = 60 * time.Second

// client is the tests' own.
var client = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// loopbackOnly denies every address but 127.0.0.0/8: a test's gateway can't leave the machine.
const loopbackOnly = "0.0.0.0/2,64.0.0.0/3,96.0.0.0/4,112.0.0.0/5,120.0.0.0/6,124.0.0.0/7,126.0.0.0/8,128.0.0.0/1,::/0"

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gateway-built-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "gateway")
	cmd := exec.Command("go", "build", "-o", program, "github.com/sallyport-dev/sallyport/cmd/gateway")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

// Program builds the gateway, once for a test binary, and returns where it is. GATEWAY_TEST_PROGRAM names one that
// is built already.
func Program(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("GATEWAY_TEST_PROGRAM"); p != "" {
		return p
	}
	p, err := build()
	if err != nil {
		t.Fatalf("build the gateway: %v", err)
	}
	return p
}

// Installation is a database and what processes on it have in common.
type Installation struct {
	t       testing.TB
	program string
	env     []string
}

// Install returns an installation with a migrated database of its own. Settings are added to the environment of all
// its processes, as GATEWAY_X=value.
func Install(t testing.TB, settings ...string) *Installation {
	t.Helper()
	return InstallOn(t, postgrestest.NewURL(t), settings...)
}

// InstallOn returns an installation on a database that is migrated already.
func InstallOn(t testing.TB, url string, settings ...string) *Installation {
	t.Helper()
	key, err := signing.NewKey("test")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"GATEWAY_DATABASE_URL=" + url, "GATEWAY_SECRET_KEYS=" + key,
		"GATEWAY_ALLOW_HTTP=true", "GATEWAY_EGRESS_ALLOW_LOOPBACK=true", "GATEWAY_EGRESS_DENY=" + loopbackOnly,
	}
	return &Installation{t: t, program: Program(t), env: append(env, settings...)}
}

// CLI runs a command of the gateway with --json and decodes what it prints.
func (i *Installation) CLI(into any, args ...string) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.program, append(args, "--json")...)
	cmd.Env = i.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		i.t.Fatalf("gateway %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		i.t.Fatalf("gateway %s printed %q: %v", strings.Join(args, " "), stdout.String(), err)
	}
}

// Tenant creates a tenant and returns its id and an owner's token.
func (i *Installation) Tenant(name string) (id, token string) {
	i.t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	i.CLI(&made, "tenant", "create", name)
	var issued struct {
		Token string `json:"token"`
	}
	i.CLI(&issued, "token", "create", "--tenant", made.ID, "--role", "owner")
	return made.ID, issued.Token
}

// Gateway is a running process.
type Gateway struct {
	URL    string // of the API
	OpsURL string
	t      testing.TB
	cmd    *exec.Cmd
	ended  chan struct{}
	err    error
	log    *logBuffer
}

// Start runs `gateway serve` and waits until it is ready. It is killed when the test ends.
func (i *Installation) Start(args ...string) *Gateway {
	i.t.Helper()
	g := i.Launch(args...)
	g.AwaitReady()
	return g
}

// Launch runs `gateway serve` and does not wait.
func (i *Installation) Launch(args ...string) *Gateway {
	i.t.Helper()
	api, ops := freePort(i.t), freePort(i.t)
	cmd := exec.Command(i.program, append([]string{"serve", "--listen", api, "--ops-listen", ops}, args...)...)
	cmd.Env = i.env
	g := &Gateway{URL: "http://" + api, OpsURL: "http://" + ops, t: i.t, cmd: cmd, ended: make(chan struct{}), log: new(logBuffer)}
	cmd.Stdout, cmd.Stderr = g.log, g.log
	if err := cmd.Start(); err != nil {
		i.t.Fatal(err)
	}
	go func() { g.err = cmd.Wait(); close(g.ended) }()
	i.t.Cleanup(func() {
		g.Kill()
		if i.t.Failed() {
			i.t.Logf("the log of process %d:\n%s", cmd.Process.Pid, g.log.tail(16<<10))
		}
	})
	return g
}

// AwaitReady waits until the process is ready, and fails the test if it ends before.
func (g *Gateway) AwaitReady() {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		select {
		case <-g.ended:
			g.t.Fatalf("the gateway ended: %v\n%s", g.err, g.log.tail(4<<10))
		case <-tick.C:
		}
		resp, err := client.Get(g.OpsURL + "/readyz")
		if err != nil {
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	g.t.Fatalf("the gateway is not ready\n%s", g.log.tail(4<<10))
}

// Kill ends the process as a crash does, and waits for its end. It does nothing to one that has ended.
func (g *Gateway) Kill() { g.Signal(syscall.SIGKILL); <-g.ended }

// Signal sends a signal.
func (g *Gateway) Signal(s syscall.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		g.t.Errorf("signal %v: %v", s, err)
	}
}

// Stop asks the process to end and returns its error, nil for exit 0.
func (g *Gateway) Stop() error {
	g.t.Helper()
	g.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
	case <-time.After(patience):
		g.t.Fatal("the gateway does not end")
	}
	return g.err
}

// Log is all that the process has printed.
func (g *Gateway) Log() string { return g.log.tail(1 << 30) }

// PID is the process's.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

// Call makes a request of the API and returns the status and the body; a nil body sends none.
func (g *Gateway) Call(ctx context.Context, token, method, path string, body []byte, header ...string) (int, []byte, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, g.URL+path, r)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// logBuffer keeps what a process prints.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.buf.Bytes()
	if len(s) > n {
		s = s[len(s)-n:]
	}
	return string(s)
}
