package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Config says where a private server lives and what it is for. The zero value is the server of `gateway dev`.
type Config struct {
	// Dir holds the server; see the package's text. Empty means DefaultDir.
	Dir string
	// Disposable trades durability for speed: nothing is synced to disk, and a data directory that can't be
	// started is thrown away and made anew. For tests.
	Disposable bool
	// ExtraParams are settings of the server, as max_connections, over those of this package.
	ExtraParams map[string]string
	// Log is told when a data directory is made, and when the server ends by itself. Nil means nobody.
	Log *slog.Logger
}

// ErrNoBinaries says that there is no PostgreSQL server of version 15 or later on this machine.
var ErrNoBinaries = errors.New("PostgreSQL's server programs (version 15 or later) were not found. " +
	"Run `sudo apt-get install postgresql` (on macOS: `brew install postgresql@17`), " +
	"or set GATEWAY_PG_BIN to the directory that holds initdb and postgres")

// ErrNotOurs says that a directory holds other things: it is not taken over.
var ErrNotOurs = errors.New("not a directory of a private PostgreSQL")

// ErrInUse says that another process runs the server of a directory.
var ErrInUse = errors.New("in use")

const (
	database  = "gateway"
	superuser = "sallyport" // not "gateway": a schema named as the user is on its search_path, and hides what names no schema
	port      = "5432"      // only names the socket's file

	startTimeout  = 60 * time.Second // a first start takes 3 s, one after a crash is as long as its WAL
	orphanTimeout = 10 * time.Second // for the server of a killed process to be gone; it takes 0.1 s
	socketPathMax = 103              // bytes; sun_path holds 108 with its NUL on Linux, 104 on macOS
)

// Server is a running private server. Its methods may be called from any goroutine.
type Server struct {
	dir      string
	programs programs
	owner    owner
	config   Config
	log      *slog.Logger
	lock     *os.File

	mu      sync.Mutex
	process *process // nil when it was stopped
	closed  bool     // after Stop
}

// DefaultDir is the directory of `gateway dev`: /var/lib/gateway-dev for root, whose home the server's user can't
// enter, else sallyport/dev in $XDG_DATA_HOME or ~/.local/share.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/gateway-dev", nil
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "sallyport", "dev"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the private PostgreSQL: %w", err)
	}
	return filepath.Join(home, ".local", "share", "sallyport", "dev"), nil
}

// Start starts the server of a directory, making both when they don't exist, and returns once it takes connections.
// A context that ends stops the starting, not the server. ErrNoBinaries and ErrInUse are for the caller's reader.
func Start(ctx context.Context, config Config) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Server{config: config, log: config.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.owner, err = serverOwner(); err != nil {
		return nil, err
	}
	if s.dir, err = prepareDir(config.Dir, s.owner); err != nil {
		return nil, err
	}
	if s.lock, err = takeLock(ctx, s.dir); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// open starts the server, and of a disposable one makes the data anew when that fails. Only under the lock.
func (s *Server) open(ctx context.Context) error {
	err := s.openOnce(ctx)
	if err == nil || !s.config.Disposable || ctx.Err() != nil || errors.Is(err, ErrNoBinaries) {
		return err
	}
	s.log.Warn("making a test server's data anew", "dir", s.dir, "because", err)
	if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
		return fmt.Errorf("remove the unusable data of %s: %w", s.dir, err)
	}
	return s.openOnce(ctx)
}

func (s *Server) openOnce(ctx context.Context) error {
	var err error
	if s.programs, err = findPrograms(s.dir); err != nil {
		return err
	}
	if err := s.initialise(ctx); err != nil {
		return err
	}
	return s.launch(ctx)
}

// launch starts the server's process, waits until it takes connections and makes the database.
func (s *Server) launch(ctx context.Context) error {
	p, err := s.run()
	if err != nil {
		return err
	}
	if err := s.ready(ctx, p); err != nil {
		p.stop()
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	return nil
}

// ready returns once the server takes connections and the database exists.
func (s *Server) ready(ctx context.Context, p *process) error {
	for {
		conn, err := pgx.Connect(ctx, s.urlOf("postgres"))
		if err == nil {
			return errors.Join(ensureDatabase(ctx, conn), conn.Close(context.WithoutCancel(ctx)))
		}
		var answer *pgconn.PgError
		if errors.As(err, &answer) && answer.Code != "57P03" { // cannot_connect_now: it is starting
			return fmt.Errorf("PostgreSQL in %s refuses its own superuser: %w", s.dir, err)
		}
		select {
		case <-p.ended:
			return fmt.Errorf("PostgreSQL in %s did not start: %s", s.dir, p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL in %s did not take connections: %w (%w)", s.dir, ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func ensureDatabase(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	if err := conn.QueryRow(ctx, `select exists (select from pg_database where datname = $1)`, database).Scan(&exists); err != nil {
		return fmt.Errorf("look for the database %s: %w", database, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `create database `+database); err != nil {
		return fmt.Errorf("create the database %s: %w", database, err)
	}
	return nil
}

// URL is where to connect: a postgres:// URL of the Unix socket, good for pgx and for psql.
func (s *Server) URL() string { return s.urlOf(database) }

func (s *Server) urlOf(database string) string {
	query := url.Values{"host": {s.socketDir()}, "port": {port}, "user": {superuser}, "sslmode": {"disable"}}
	return "postgres:///" + database + "?" + strings.ReplaceAll(query.Encode(), "+", "%20") // libpq knows no "+"
}

// Dir is the server's directory.
func (s *Server) Dir() string { return s.dir }

// PID is the process id of the server, 0 when it is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// Ended is closed when the server's present process has ended, asked for or not. It is nil when it is stopped.
func (s *Server) Ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	return s.process.ended
}

// Stop ends the server and gives its directory free. Open connections are closed; what is committed is kept. It
// takes about 0.1 s, and at most 20 s, after which the server has been killed. A second Stop does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.stop()
		s.process = nil
	}
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.lock.Close(); err != nil {
		return fmt.Errorf("give %s free: %w", s.dir, err)
	}
	return nil
}

// Halt ends the server's process and keeps its directory, for Restart.
func (s *Server) Halt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.stop()
		s.process = nil
	}
}

// Crash ends the server's process without a checkpoint, as if it had been killed: the next start recovers from the
// write-ahead log. For tests.
func (s *Server) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.signal(syscall.SIGQUIT)
		<-s.process.ended
		s.process = nil
	}
}

// Restart starts the server's process again on the same data, after Halt, Crash or an end of its own; one that
// still runs is ended first. It returns once the server takes connections, and fails after Stop.
func (s *Server) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.Halt()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return fmt.Errorf("the private PostgreSQL in %s has been stopped", s.dir)
	}
	return s.launch(ctx)
}

// tail is the end of a file, at most n bytes.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-n), io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(f, n))
	return string(text)
}
