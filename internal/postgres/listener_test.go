package postgres_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, postgrestest.IgnoreServer()) }

const channel = "listener_test"

// ear is a running listener and what it has heard.
type ear struct {
	listener  *postgres.Listener
	heard     chan string
	connected chan struct{}
	stop      func() // and wait
}

func listen(t *testing.T, at string, set func(*postgres.Listener)) *ear {
	t.Helper()
	e := &ear{
		listener:  postgres.NewListener(at, slog.New(slog.DiscardHandler)),
		heard:     make(chan string, 100),
		connected: make(chan struct{}, 100),
	}
	e.listener.On(channel, func(payload string) { e.heard <- payload })
	e.listener.OnConnect(func() { e.connected <- struct{}{} })
	if set != nil {
		set(e.listener)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.listener.Run(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(e.stop)
	return e
}

// next is what a channel brings within a generous time.
func next[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func notify(t *testing.T, pool *pgxpool.Pool, channel, payload string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `select pg_notify($1, $2)`, channel, payload); err != nil {
		t.Fatal(err)
	}
}

func TestListener(t *testing.T) {
	t.Parallel()

	t.Run("hands out each channel's notifications in order", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		other := make(chan string, 10)
		second := make(chan string, 10)
		e := listen(t, postgrestest.URL(pool), func(l *postgres.Listener) {
			l.On("Other channel", func(payload string) { other <- payload })
			l.On(channel, func(payload string) { second <- payload })
		})
		next(t, e.connected, "the connection")
		if !e.listener.Listening() {
			t.Error("connected and not listening")
		}
		notify(t, pool, "Other channel", "elsewhere")
		notify(t, pool, channel, "one")
		notify(t, pool, channel, "two")
		for _, want := range []string{"one", "two"} {
			if got := next(t, e.heard, want); got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
			if got := next(t, second, want); got != want {
				t.Errorf("the second function heard %q, want %q", got, want)
			}
		}
		if got := next(t, other, "the other channel"); got != "elsewhere" {
			t.Errorf("heard %q on the other channel", got)
		}
	})

	t.Run("connects again when its connection is killed", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		e := listen(t, postgrestest.URL(pool), nil)
		next(t, e.connected, "the first connection")
		var killed int
		if err := pool.QueryRow(t.Context(), `
			select count(pg_terminate_backend(pid)) from pg_stat_activity
			where datname = current_database() and application_name = 'sallyport listener'`).Scan(&killed); err != nil || killed != 1 {
			t.Fatalf("killed %d (%v), want one connection", killed, err)
		}
		next(t, e.connected, "the second connection")
		notify(t, pool, channel, "after")
		if got := next(t, e.heard, "a notification"); got != "after" {
			t.Errorf("heard %q", got)
		}
	})

	t.Run("gives up a connection that has gone silent", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		path := newRoute(t, pool)
		e := listen(t, path.url, func(l *postgres.Listener) { l.SetPing(20*time.Millisecond, time.Second) })
		next(t, e.connected, "the first connection")
		notify(t, pool, channel, "before") // through pings that are answered
		next(t, e.heard, "a notification")
		path.freeze()
		next(t, e.connected, "a connection in place of the silent one")
		notify(t, pool, channel, "after")
		if got := next(t, e.heard, "a notification"); got != "after" {
			t.Errorf("heard %q", got)
		}
	})

	t.Run("waits for a server that is away and ends with its context meanwhile", func(t *testing.T) {
		t.Parallel()
		e := listen(t, "postgres://u@"+closedPort(t)+"/db", nil)
		if e.listener.Listening() {
			t.Error("listens to nobody")
		}
		e.stop()
	})

	t.Run("ends with its context", func(t *testing.T) {
		t.Parallel()
		e := listen(t, postgrestest.NewURL(t)+"&pool_max_conns=7", nil) // the pool's URL, as it is
		next(t, e.connected, "the connection")
		e.stop()
		if e.listener.Listening() {
			t.Error("still listening")
		}
	})

	t.Run("refuses a URL that can't be read", func(t *testing.T) {
		t.Parallel()
		err := postgres.NewListener("postgres://u:pass/word@h/db", slog.New(slog.DiscardHandler)).Run(t.Context())
		if err == nil || strings.Contains(err.Error(), "pass/") {
			t.Errorf("got %v", err)
		}
	})
}

func TestListenerSurvivesRestart(t *testing.T) {
	t.Parallel()
	server := postgrestest.Server(t)
	e := listen(t, server.URL(), nil)
	next(t, e.connected, "the first connection")
	server.Crash()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(t, e.connected, "a connection to the restarted server")
	notify(t, open(t, server.URL()), channel, "after")
	if got := next(t, e.heard, "a notification"); got != "after" {
		t.Errorf("heard %q", got)
	}
}

// route is a way to a database over TCP, whose present connections can be frozen: they stay open and carry nothing.
type route struct {
	url    string
	mu     sync.Mutex
	frozen chan struct{}
}

func (r *route) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.frozen)
	r.frozen = make(chan struct{})
}

func newRoute(t *testing.T, pool *pgxpool.Pool) *route {
	t.Helper()
	c := pool.Config().ConnConfig
	network, address := "tcp", fmt.Sprintf("%s:%d", c.Host, c.Port)
	if strings.HasPrefix(c.Host, "/") {
		network, address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", c.Host, c.Port)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &route{
		url:    fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", c.User, c.Password, l.Addr(), c.Database),
		frozen: make(chan struct{}),
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial(network, address)
			if err != nil {
				near.Close()
				continue
			}
			r.mu.Lock()
			frozen := r.frozen
			r.mu.Unlock()
			carry := func(to, from net.Conn) {
				buffer := make([]byte, 4096)
				for {
					n, err := from.Read(buffer)
					select {
					case <-frozen:
						_, _ = io.Copy(io.Discard, from) // until it is closed
						return
					default:
					}
					if err != nil {
						to.Close()
						return
					}
					if _, err := to.Write(buffer[:n]); err != nil {
						from.Close()
						return
					}
				}
			}
			all.Go(func() { carry(near, far) })
			all.Go(func() { defer far.Close(); carry(far, near) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return r
}
