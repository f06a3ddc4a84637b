package postgrestest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/sallyport-dev/sallyport/internal/localpg"
	"github.com/sallyport-dev/sallyport/internal/postgres"
)

const (
	// A clone takes 50 ms on an idle machine, and the first call of all makes a cluster, which takes seconds.
	setupTimeout = 2 * time.Minute
	// How long a pool may take to close: a connection that a test has not given back keeps it open for ever.
	closeTimeout = 15 * time.Second
)

// New gives a test a pool on a migrated, empty database of its own, with the partitions of yesterday and the eight
// days from then on. Both go at the test's end. A test that has not given back a connection by then fails.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	url := NewURL(t)
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	pool, err := postgres.Open(ctx, postgres.Config{URL: url, ApplicationName: "test"})
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() { pool.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(closeTimeout):
			t.Errorf("%d connections of the test's pool have not been given back", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// NewURL gives a test the URL of a database as New's, for processes that the test starts.
func NewURL(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	s, err := shared.get(ctx)
	if err != nil {
		t.Fatalf("start the test server: %v", err)
	}
	name, err := s.clone(ctx)
	if err != nil {
		t.Fatalf("clone a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
		defer cancel()
		if err := s.drop(ctx, name); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return s.urlOf(name)
}

// URL is where a pool of New is connected to.
func URL(pool *pgxpool.Pool) string { return pool.Config().ConnString() }

// Server gives a test a server of its own to stop, crash and restart. Its data is synced to disk as in production;
// its database is empty. It takes seconds, since its cluster is made first. Everything goes at the test's end.
func Server(t testing.TB) *localpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	// Not t.TempDir: its path holds the test's name, and a socket's path has to be short.
	dir, err := os.MkdirTemp("", "sallyport-pg-")
	if err != nil {
		t.Fatalf("make the server's directory: %v", err)
	}
	server, err := localpg.Start(ctx, localpg.Config{Dir: dir, ExtraParams: map[string]string{"max_connections": "200"}})
	if err != nil {
		_ = os.RemoveAll(dir)
		t.Fatalf("start the test's own server: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stop the test's own server: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the test's own server: %v", err)
		}
	})
	return server
}

// IgnoreServer has goleak overlook the goroutine that waits on the server of New, which lives as long as the
// test binary.
func IgnoreServer() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/sallyport-dev/sallyport/internal/localpg.(*process).supervise")
}
