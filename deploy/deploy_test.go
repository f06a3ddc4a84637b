// Package deploy_test proves what the files of this folder would start by running the very same commands, with the same
// environment, without a container engine and without systemd.
package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/settings"
	"github.com/sallyport-dev/sallyport/internal/signing"
)

// service is a service of compose.yaml, as far as it says what is run.
type service struct {
	Image       string
	Command     []string
	Environment map[string]string
	Secrets     []string
	Healthcheck struct{ Test []string }
	StopGrace   string `yaml:"stop_grace_period"`
}

func compose(t *testing.T) (services map[string]service, secrets map[string]struct{ File string }) {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]service
		Secrets  map[string]struct{ File string }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services, file.Secrets
}

// shutdown is how long the gateway may take to end, by its defaults.
func shutdown(t *testing.T) time.Duration {
	t.Helper()
	s, err := settings.Load(settings.Sources{Fixed: map[string]string{"DATABASE_URL": "postgres:///x", "SECRET_KEYS": "k:" + strings.Repeat("A", 43) + "="}})
	if err != nil {
		t.Fatal(err)
	}
	return s.ShutdownGrace + s.ShutdownMargin
}

// stage is a machine for one deployment: a folder in the place of /run/secrets, a database, ports.
type stage struct {
	program  string
	database string
	dir      string
	ports    map[string]string // what stands in a file, and what it is here
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{program: gatewaytest.Program(t), database: postgrestest.NewURL(t), dir: t.TempDir(), ports: make(map[string]string)}
	key, err := signing.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"database_url": s.database, "secret_keys": key + "\n"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{":8080", ":9090"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.ports[at] = l.Addr().String()
		l.Close()
	}
	return s
}

// here puts this machine's folder and ports in the place of the deployment's.
func (s *stage) here(value string) string {
	for port, at := range s.ports {
		if strings.HasSuffix(value, port) {
			return at
		}
	}
	return strings.ReplaceAll(value, "/run/secrets", s.dir)
}

func (s *stage) command(ctx context.Context, environment map[string]string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program, args...)
	for name, value := range environment {
		cmd.Env = append(cmd.Env, name+"="+s.here(value))
	}
	cmd.Dir = s.dir
	return cmd
}

// run runs a command to its end.
func (s *stage) run(ctx context.Context, t *testing.T, environment map[string]string, args ...string) {
	t.Helper()
	if out, err := s.command(ctx, environment, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// live starts the gateway, waits until its health check passes, asks it whether it lives, and ends it as an engine does.
func (s *stage) live(ctx context.Context, t *testing.T, environment map[string]string, serve, health []string, grace time.Duration) {
	t.Helper()
	var log bytes.Buffer
	cmd := s.command(ctx, environment, serve...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for s.command(ctx, environment, health...).Run() != nil {
		select {
		case err := <-ended:
			t.Fatalf("%s ended: %v\n%s", strings.Join(serve, " "), err, &log)
		case <-ctx.Done():
			t.Fatal("it never became healthy")
		case <-tick.C:
		}
	}
	s.run(ctx, t, environment, "health", "--live")
	began := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v\n%s", err, &log)
		}
	case <-time.After(grace):
		t.Errorf("it has not ended %v after SIGTERM", time.Since(began))
		cmd.Process.Kill()
	}
	if err := s.command(ctx, environment, health...).Run(); err == nil {
		t.Error("the health check passes with nobody there")
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	services, secrets := compose(t)
	gateway, migrate := services["gateway"], services["migrate"]
	for name, one := range services {
		if strings.ContainsAny(strings.Split(one.Image, ":")[0], "/.") {
			t.Errorf("%s names a host: %s", name, one.Image)
		}
		for _, secret := range one.Secrets {
			if secrets[secret].File == "" {
				t.Errorf("%s needs the secret %s, which has no file", name, secret)
			}
		}
	}
	grace, err := time.ParseDuration(gateway.StopGrace)
	if err != nil || grace <= shutdown(t) {
		t.Errorf("stop_grace_period %q, %v; the gateway may take %v", gateway.StopGrace, err, shutdown(t))
	}
	if len(gateway.Healthcheck.Test) < 2 || gateway.Healthcheck.Test[0] != "CMD" || gateway.Healthcheck.Test[1] != "/gateway" {
		t.Fatalf("health check %q", gateway.Healthcheck.Test)
	}
	s := newStage(t)
	s.run(ctx, t, migrate.Environment, migrate.Command...)
	s.run(ctx, t, migrate.Environment, migrate.Command...) // as at each start
	s.live(ctx, t, gateway.Environment, gateway.Command, gateway.Healthcheck.Test[2:], grace)
}

func TestContainerfile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	has := func(pattern string) []string {
		t.Helper()
		for _, line := range lines {
			if m := regexp.MustCompile(pattern).FindStringSubmatch(line); m != nil {
				return m
			}
		}
		t.Errorf("no line is like %s", pattern)
		return make([]string, 5)
	}
	has(`^USER 65532:65532$`)
	has(`^ENTRYPOINT \["/gateway"\]$`)
	for _, line := range lines {
		if from, ok := strings.CutPrefix(line, "FROM "); ok && strings.ContainsAny(strings.Fields(from)[0], "/") {
			t.Errorf("an image names a host: %s", line)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := newStage(t)
	environment := map[string]string{"GATEWAY_DATABASE_URL_FILE": "/run/secrets/database_url", "GATEWAY_SECRET_KEYS_FILE": "/run/secrets/secret_keys"}
	for _, pair := range strings.Fields(has(`^ENV (.*)$`)[1]) {
		name, value, _ := strings.Cut(pair, "=")
		environment[name] = value
	}
	serve, health := has(`^CMD \["(.*)"\]$`)[1], has(`^HEALTHCHECK .* CMD \["/gateway", "(.*)"\]$`)[1]
	s.live(ctx, t, environment, []string{serve}, []string{health}, shutdown(t))
	// The binary needs nothing of a system: it is built without cgo.
	build := has(`^RUN (CGO_ENABLED=0) go build`)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(s.dir, "static"), "../cmd/gateway")
	cmd.Env = append(os.Environ(), build[1])
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	unit := assignments(t, "sallyport.service")
	environment := assignments(t, "gateway.env.example")
	stop, err := time.ParseDuration(unit["TimeoutStopSec"])
	if err != nil || stop <= shutdown(t) {
		t.Errorf("TimeoutStopSec %q, %v; the gateway may take %v", unit["TimeoutStopSec"], err, shutdown(t))
	}
	s := newStage(t)
	for _, name := range []string{"GATEWAY_DATABASE_URL", "GATEWAY_SECRET_KEYS"} {
		if _, ok := environment[name]; !ok {
			t.Errorf("the example does not name %s", name)
		}
	}
	key, err := signing.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	environment["GATEWAY_DATABASE_URL"], environment["GATEWAY_SECRET_KEYS"] = s.database, key
	args := func(line string) []string {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "/usr/local/bin/gateway" {
			t.Fatalf("the unit runs %q", line)
		}
		return words[1:]
	}
	s.run(ctx, t, environment, args(unit["ExecStartPre"])...)
	s.live(ctx, t, environment, args(unit["ExecStart"]), []string{"health"}, stop)
}

// assignments reads NAME=value lines.
func assignments(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(line, "#") {
			found[name] = value
		}
	}
	return found
}

// Every setting that a file of this folder names must exist: the program refuses the others at its start.
func TestSettingsExist(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"compose.yaml", "Containerfile", "gateway.env.example"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`GATEWAY_[A-Z_]+`).FindAllString(string(text), -1)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			setting := strings.TrimSuffix(strings.TrimPrefix(name, "GATEWAY_"), "_FILE")
			if !strings.Contains(string(docs), fmt.Sprintf("`%s`", setting)) {
				t.Errorf("%s names %s, which is no setting", file, name)
			}
		}
	}
}
