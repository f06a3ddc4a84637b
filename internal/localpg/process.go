package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is one run of the server.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed once the process is gone
}

// run starts the server. The caller holds the directory's lock.
func (s *Server) run() (*process, error) {
	// A postmaster.pid of a dead server may name a process id that another process has by now, and the server
	// would refuse to start. Whoever has the lock knows that no server of this directory lives.
	data := filepath.Join(s.dir, "data")
	if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the pid file of a dead server: %w", err)
	}
	path := filepath.Join(s.dir, "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the private PostgreSQL's log: %w", err)
	}
	defer log.Close()

	cmd := exec.Command(filepath.Join(s.programs.bin, "postgres"), s.arguments(data)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir, environment(), s.owner.attributes()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{s.lock} // held until the last of the server's processes is gone
	p := &process{cmd: cmd, log: path, ended: make(chan struct{})}
	started := make(chan error)
	go p.supervise(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start PostgreSQL in %s: %w", s.dir, err)
	}
	return p, nil
}

// supervise forks and waits on one thread that lives as long as the server: the signal that the system sends to
// a child when its parent dies is bound to the thread that forked it.
func (p *process) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // how it ended is in its log
	}
}

// onLockedThread runs a command's method on a thread that the runtime does not end meanwhile.
func onLockedThread(run func() ([]byte, error)) ([]byte, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return run()
}

// stop ends the process: clients are sent away (SIGINT), then everything is dropped at once (SIGQUIT), then killed.
func (p *process) stop() {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, 10 * time.Second}, {syscall.SIGQUIT, 10 * time.Second}, {syscall.SIGKILL, time.Minute}} {
		p.signal(step.signal)
		select {
		case <-p.ended:
			return
		case <-time.After(step.wait):
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // fails only when the process has ended
}

func (p *process) lastWords() string { return lastLines(tail(p.log, 4096), 5) }

func (s *Server) socketDir() string { return filepath.Join(s.dir, "s") }

// arguments are the server's settings: no TCP, and no statement's text in the log, since it may hold a payload.
func (s *Server) arguments(data string) []string {
	params := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": s.socketDir(),
		"unix_socket_permissions": "0700",
		"port":                    port,
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_min_error_statement": "panic",
		"logging_collector":       "off",
	}
	if s.config.Disposable {
		params["fsync"] = "off"
		params["full_page_writes"] = "off"
	}
	for name, value := range s.config.ExtraParams {
		params[name] = value
	}
	args := []string{"-D", data}
	for name, value := range params {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// environment is the process's own without what would change a server's manners: PGPORT, PGDATA, locales.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG")
	})
	return append(env, "LC_ALL=C")
}
