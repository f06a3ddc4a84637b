package postgrestest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/localpg"
	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/migrations"
)

// shared is the server of the test binary, started by the first test that wants it. It is the one global with
// state of this package, which no program links: a server per test would take seconds each.
var shared lazy

type lazy struct {
	mu     sync.Mutex
	server *server
}

// get starts the server, or gives the one that is there. A start that failed is tried again by the next test.
func (l *lazy) get(ctx context.Context) (*server, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		return l.server, nil
	}
	s, err := start(ctx)
	if err != nil {
		return nil, err
	}
	l.server = s
	return s, nil
}

// server is a PostgreSQL server with a template, a migrated database that nobody connects to.
type server struct {
	base     string // the URL of a database that is no test's
	template string
}

// The names of our databases on a server. The time in a clone's name is its birth (Unix seconds).
const (
	dayFormat      = "20060102"
	templatePrefix = "sallyport_template_"
	clonePrefix    = "sallyport_test_"
	// On a server that others use too, what is older than this belongs to no run that still lives.
	abandonedAfter = 48 * time.Hour
	templateLock   = 0x73616c6c74657374 // "salltest"
)

func start(ctx context.Context) (*server, error) {
	base, private := os.Getenv("GATEWAY_TEST_DATABASE_URL"), false
	if base == "" {
		slot, err := takeSlot(ctx)
		if err != nil {
			return nil, err
		}
		base, private = slot.URL(), true
	}
	fingerprint, err := schemaFingerprint()
	if err != nil {
		return nil, err
	}
	s := &server{base: base, template: templateName(fingerprint, time.Now().UTC())}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := s.clear(ctx, conn, private); err != nil {
		return nil, err
	}
	if err := s.ensureTemplate(ctx, conn); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *server) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(s.base)
	if err != nil {
		return nil, postgres.ErrURL
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the test server: %w", err)
	}
	return conn, nil
}

// takeSlot starts the server of the first slot that no other process has.
func takeSlot(ctx context.Context) (*localpg.Server, error) {
	dir, err := slotsDir()
	if err != nil {
		return nil, err
	}
	for n := range 1000 {
		server, err := localpg.Start(ctx, localpg.Config{
			Dir:        filepath.Join(dir, strconv.Itoa(n)),
			Disposable: true,
			ExtraParams: map[string]string{
				"max_connections":            "300",
				"shared_buffers":             "64MB",
				"dynamic_shared_memory_type": "mmap", // containers have a tiny /dev/shm
				"max_wal_size":               "256MB",
				"jit":                        "off",
				"log_min_messages":           "fatal", // tests provoke errors
				"log_checkpoints":            "off",
			},
		})
		if errors.Is(err, localpg.ErrInUse) {
			continue
		}
		return server, err
	}
	return nil, fmt.Errorf("all slots in %s are in use", dir)
}

// slotsDir is where the slots are kept: not in root's home, which the server's user can't enter, nor in a directory
// that anybody may write to.
func slotsDir() (string, error) {
	if dir := os.Getenv("GATEWAY_TEST_PG_DIR"); dir != "" {
		return dir, nil
	}
	if os.Geteuid() == 0 {
		return "/var/cache/sallyport/test", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for test servers (set GATEWAY_TEST_PG_DIR): %w", err)
	}
	return filepath.Join(cache, "sallyport", "test"), nil
}

// clear drops what runs that were killed have left: everything on a private server, else what is old.
func (s *server) clear(ctx context.Context, conn *pgx.Conn, private bool) error {
	names, err := databases(ctx, conn, clonePrefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		born, _, _ := strings.Cut(strings.TrimPrefix(name, clonePrefix), "_")
		seconds, err := strconv.ParseInt(born, 10, 64)
		if private || err == nil && time.Since(time.Unix(seconds, 0)) > abandonedAfter {
			if err := drop(ctx, conn, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensureTemplate makes the template unless there is one of these migrations and this day, and drops those of days
// gone by. It is made under another name and renamed when it is whole. Other processes may do the same at once.
func (s *server) ensureTemplate(ctx context.Context, conn *pgx.Conn) error {
	if err := lockTemplates(ctx, conn); err != nil { // until the connection closes
		return err
	}
	names, err := databases(ctx, conn, templatePrefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		born, _, _ := strings.Cut(strings.TrimPrefix(name, templatePrefix), "_")
		day, err := time.Parse(dayFormat, born)
		if err == nil && time.Since(day) > abandonedAfter {
			if err := drop(ctx, conn, name); err != nil {
				return err
			}
		}
	}
	if slices.Contains(names, s.template) {
		return nil
	}
	return s.makeTemplate(ctx, conn)
}

// lockTemplates polls, as the migrations do and for the same reason.
func lockTemplates(ctx context.Context, conn *pgx.Conn) error {
	for {
		var locked bool
		if err := conn.QueryRow(ctx, `select pg_try_advisory_lock($1)`, int64(templateLock)).Scan(&locked); err != nil {
			return fmt.Errorf("lock the templates: %w", err)
		}
		if locked {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another process to make the template: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func templateName(fingerprint string, day time.Time) string {
	return templatePrefix + day.Format(dayFormat) + "_" + fingerprint
}

func (s *server) makeTemplate(ctx context.Context, conn *pgx.Conn) error {
	half := s.template + "_half"
	if err := drop(ctx, conn, half); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `create database `+quote(half)+` template template0 encoding 'UTF8'`); err != nil {
		return fmt.Errorf("create the template: %w", err)
	}
	pool, err := postgres.Open(ctx, postgres.Config{URL: s.urlOf(half), ApplicationName: "test template"})
	if err != nil {
		return fmt.Errorf("open the template: %w", err)
	}
	err = postgres.Migrate(ctx, pool)
	pool.Close()
	if err != nil {
		return fmt.Errorf("migrate the template: %w", err)
	}
	// Nobody connects to a template: a clone of one that is connected to fails.
	if _, err := conn.Exec(ctx, `alter database `+quote(half)+` with allow_connections false`); err != nil {
		return fmt.Errorf("close the template: %w", err)
	}
	if _, err := conn.Exec(ctx, `alter database `+quote(half)+` rename to `+quote(s.template)); err != nil {
		return fmt.Errorf("name the template: %w", err)
	}
	return nil
}

// schemaFingerprint changes with our migrations and with the version of River, which brings its own.
func schemaFingerprint() (string, error) {
	sum := sha256.New()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return "", fmt.Errorf("list the migrations: %w", err)
	}
	for _, name := range names {
		text, err := migrations.FS.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read the migration %s: %w", name, err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if strings.HasPrefix(dep.Path, "github.com/riverqueue/") {
				fmt.Fprintf(sum, "%s %s\n", dep.Path, dep.Version)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// clone makes a database and gives its name.
func (s *server) clone(ctx context.Context) (string, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	name := clonePrefix + strconv.FormatInt(time.Now().Unix(), 10) + "_" + strings.ToLower(rand.Text()[:12])
	if _, err := conn.Exec(ctx, `create database `+quote(name)+` template `+quote(s.template)); err != nil {
		return "", fmt.Errorf("clone the template: %w", err)
	}
	return name, nil
}

// drop drops a clone.
func (s *server) drop(ctx context.Context, name string) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return drop(ctx, conn, name)
}

// drop drops a database, if there is one, and whoever is connected to it.
func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, `drop database if exists `+quote(name)+` with (force)`); err != nil {
		return fmt.Errorf("drop the database %s: %w", name, err)
	}
	return nil
}

func databases(ctx context.Context, conn *pgx.Conn, prefix string) ([]string, error) {
	rows, err := conn.Query(ctx, `select datname from pg_database where starts_with(datname, $1)`, prefix)
	if err != nil {
		return nil, fmt.Errorf("list the databases: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the databases: %w", err)
	}
	return names, nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// urlOf is the URL of another database of the server.
func (s *server) urlOf(name string) string {
	u, err := url.Parse(s.base)
	if err != nil || u.Scheme == "" {
		return s.base + " dbname=" + name // keywords: the last one counts
	}
	u.Path = "/" + name
	return u.String()
}
