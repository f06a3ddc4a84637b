package localpg_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/sallyport-dev/sallyport/internal/localpg"
)

// childDir makes the test binary a program that runs the server of a directory until it is killed.
const childDir = "LOCALPG_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		runChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func runChild(dir string) {
	server, err := localpg.Start(context.Background(), localpg.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(server.PID())
	select {}
}

// newDir is a short path, as a socket needs, that the server's user can enter.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the server's directory: %v", err)
		}
	})
	return dir
}

func start(t *testing.T, config localpg.Config) *localpg.Server {
	t.Helper()
	server, err := localpg.Start(t.Context(), config)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return server
}

func execute(t *testing.T, server *localpg.Server, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t *testing.T, server *localpg.Server) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.QueryRow(t.Context(), `select count(*) from kept`).Scan(&n); err != nil {
		t.Fatalf("count: %v", err)
	}
	return n
}

// waitUntil waits for a condition that comes about outside the process.
func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestStart(t *testing.T) {
	t.Parallel()

	t.Run("keeps the data from one start to the next", func(t *testing.T) {
		t.Parallel()
		dir := newDir(t)
		first := start(t, localpg.Config{Dir: dir})
		execute(t, first, `create table kept as select 1`)
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		if got := count(t, start(t, localpg.Config{Dir: dir})); got != 1 {
			t.Errorf("found %d rows of the first start, want 1", got)
		}
	})

	t.Run("is in UTF-8, in UTC and on no port", func(t *testing.T) {
		t.Parallel()
		server := start(t, localpg.Config{Dir: newDir(t), ExtraParams: map[string]string{"max_connections": "17"}})
		conn, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		for name, want := range map[string]string{
			"server_encoding": "UTF8", "timezone": "UTC", "listen_addresses": "", "max_connections": "17", "fsync": "on",
		} {
			var got string
			if err := conn.QueryRow(t.Context(), `select current_setting($1)`, name).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %q (%v), want %q", name, got, err, want)
			}
		}
	})

	t.Run("lets only the server's user in", func(t *testing.T) {
		t.Parallel()
		dir := newDir(t)
		start(t, localpg.Config{Dir: dir})
		for _, path := range []string{dir, filepath.Join(dir, "s"), filepath.Join(dir, "data")} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
		}
	})

	t.Run("is out of the reach of Ctrl-C", func(t *testing.T) {
		t.Parallel()
		server := start(t, localpg.Config{Dir: newDir(t)})
		group, err := syscall.Getpgid(server.PID())
		if err != nil {
			t.Fatal(err)
		}
		if group == syscall.Getpgrp() {
			t.Error("the server is in the process group of its starter")
		}
	})

	t.Run("refuses a directory in use and names its holder", func(t *testing.T) {
		t.Parallel()
		dir := newDir(t)
		start(t, localpg.Config{Dir: dir})
		_, err := localpg.Start(t.Context(), localpg.Config{Dir: dir})
		if !errors.Is(err, localpg.ErrInUse) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
			t.Errorf("second start: %v, want %v by process %d", err, localpg.ErrInUse, os.Getpid())
		}
	})

	t.Run("takes no notice of a half-made cluster and of a dead server's pid", func(t *testing.T) {
		t.Parallel()
		dir := newDir(t)
		if err := os.MkdirAll(filepath.Join(dir, "data.init", "base"), 0o700); err != nil {
			t.Fatal(err)
		}
		server := start(t, localpg.Config{Dir: dir})
		server.Halt()
		// The pid of a process that lives, is the server's user's, and is no server of this directory.
		stale := fmt.Sprintf("%d\n%s\n1\n5432\n%s\n\n  1 1\nready\n", start(t, localpg.Config{Dir: newDir(t)}).PID(), filepath.Join(dir, "data"), filepath.Join(dir, "s"))
		if err := os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stale), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Errorf("restart: %v", err)
		}
	})

	t.Run("refuses a path that is too long for a socket", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(newDir(t), strings.Repeat("d", 100))
		_, err := localpg.Start(t.Context(), localpg.Config{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "too deep") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("follows no link", func(t *testing.T) {
		t.Parallel()
		dir := newDir(t)
		if err := os.Symlink(newDir(t), filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		if _, err := localpg.Start(t.Context(), localpg.Config{Dir: filepath.Join(dir, "link")}); err == nil {
			t.Error("started in a directory behind a link")
		}
	})

	t.Run("stops starting when its context ends", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := localpg.Start(ctx, localpg.Config{Dir: newDir(t)}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
}

func TestUnusableData(t *testing.T) {
	t.Parallel()

	// breakData leaves a directory whose cluster can't be started.
	breakData := func(t *testing.T, dir, file, text string) {
		t.Helper()
		if err := start(t, localpg.Config{Dir: dir, Disposable: true}).Stop(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data", file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("is kept, and the error says why", func(t *testing.T) {
		t.Parallel()
		dir := newDir(t)
		breakData(t, dir, "postgresql.conf", "no_such_setting = 1\n")
		_, err := localpg.Start(t.Context(), localpg.Config{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
			t.Errorf("got %v, want the server's own words", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "data", "base")); err != nil {
			t.Errorf("the data is gone: %v", err)
		}
	})

	t.Run("of another version is kept, and the error says what to install", func(t *testing.T) {
		t.Parallel()
		dir := newDir(t)
		breakData(t, dir, "PG_VERSION", "14\n")
		_, err := localpg.Start(t.Context(), localpg.Config{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "install postgresql-14") {
			t.Errorf("got %v", err)
		}
	})

	for _, damage := range []struct{ name, file, text string }{
		{"damaged", "postgresql.conf", "no_such_setting = 1\n"},
		{"of another version", "PG_VERSION", "14\n"},
	} {
		t.Run(damage.name+" is made anew where it is disposable", func(t *testing.T) {
			t.Parallel()
			dir := newDir(t)
			breakData(t, dir, damage.file, damage.text)
			execute(t, start(t, localpg.Config{Dir: dir, Disposable: true, Log: slog.New(slog.DiscardHandler)}), `select 1`)
		})
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	server := start(t, localpg.Config{Dir: newDir(t)})
	execute(t, server, `create table kept as select 1`)

	ended := server.Ended()
	server.Crash()
	<-ended
	if server.PID() != 0 || server.Ended() != nil {
		t.Error("a crashed server still has a process")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatalf("restart after a crash: %v", err)
	}
	if got := count(t, server); got != 1 {
		t.Errorf("found %d committed rows after a crash, want 1", got)
	}
	first := server.PID()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatalf("restart while running: %v", err)
	}
	if server.PID() == first {
		t.Error("restart kept the process")
	}
	for range 2 {
		if err := server.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if err := server.Restart(t.Context()); err == nil {
		t.Error("restarted after Stop")
	}
}

func TestKilledProcessLeavesNoServer(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanln(out, &pid); err != nil {
		t.Fatalf("the child started no server: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	// At once: the start waits for the server that is going down, and finds the same data.
	server := start(t, localpg.Config{Dir: dir})
	execute(t, server, `create table kept ()`)
	waitUntil(t, "the killed process's server is gone", func() bool { return !serves(pid) })
}

// serves says whether a process lives; a dead one that nobody has waited for does not.
func serves(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestMissingPrograms(t *testing.T) {
	t.Setenv("GATEWAY_PG_BIN", t.TempDir())
	_, err := localpg.Start(t.Context(), localpg.Config{Dir: newDir(t), Disposable: true})
	if !errors.Is(err, localpg.ErrNoBinaries) || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("got %v, want %v with what to run", err, localpg.ErrNoBinaries)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data/home")
	want := "/data/home/sallyport/dev"
	if os.Geteuid() == 0 {
		want = "/var/lib/gateway-dev" // root's home is closed to the server's user
	}
	if got, err := localpg.DefaultDir(); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestADirectoryOfSomebodyElsesThingsIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	server, err := localpg.Start(t.Context(), localpg.Config{Dir: dir})
	if err == nil {
		_ = server.Stop()
	}
	if !errors.Is(err, localpg.ErrNotOurs) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Start = %v, want ErrNotOurs that names the directory", err)
	}
	after, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || before.Mode() != after.Mode() || before.Sys().(*syscall.Stat_t).Uid != after.Sys().(*syscall.Stat_t).Uid {
		t.Errorf("the directory was changed: %v, %v, then %v", entries, before.Mode(), after.Mode())
	}

	// Its own directory stays its own, whatever is put beside the data.
	own := newDir(t)
	first := start(t, localpg.Config{Dir: own})
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "note"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := start(t, localpg.Config{Dir: own}).Stop(); err != nil {
		t.Error(err)
	}
}
