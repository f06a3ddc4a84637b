package postgres_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("sets the limits of a session", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		for name, want := range map[string]string{
			"statement_timeout": "30s", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "30s", "TimeZone": "UTC",
		} {
			var got string
			if err := pool.QueryRow(t.Context(), `select current_setting($1)`, name).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %q (%v), want %q", name, got, err, want)
			}
		}
		if got := pool.Config().MaxConns; got != 20 {
			t.Errorf("the pool holds %d connections, want 20", got)
		}
	})

	t.Run("lets the URL, and more so the caller, set others", func(t *testing.T) {
		t.Parallel()
		pool, err := postgres.Open(t.Context(), postgres.Config{
			URL:             postgrestest.NewURL(t) + "&statement_timeout=7s&lock_timeout=7s",
			MaxConns:        3,
			ApplicationName: "mine",
			RuntimeParams:   map[string]string{"lock_timeout": "9s"},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		for name, want := range map[string]string{"statement_timeout": "7s", "lock_timeout": "9s", "application_name": "mine"} {
			var got string
			if err := pool.QueryRow(t.Context(), `select current_setting($1)`, name).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %q (%v), want %q", name, got, err, want)
			}
		}
		if got := pool.Config().MaxConns; got != 3 {
			t.Errorf("the pool holds %d connections, want 3", got)
		}
	})

	t.Run("reads and writes UUIDs", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		want := []uuid.UUID{uuid.New(), uuid.New()}
		var one uuid.UUID
		var list []uuid.UUID
		if err := pool.QueryRow(t.Context(), `select $1::uuid, $2::uuid[]`, want[0], want).Scan(&one, &list); err != nil {
			t.Fatal(err)
		}
		if one != want[0] || len(list) != 2 || list[1] != want[1] {
			t.Errorf("got %v and %v, want %v", one, list, want)
		}
	})
}

// TestOpenFails holds what an operator reads when there is no database. The password is in none of it.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	const password = "hunter2"
	closed := closedPort(t)

	for _, c := range []struct {
		name, url string
		want      []string
	}{
		{"nobody listens", "postgres://u:hunter2@" + closed + "/db",
			[]string{"cannot reach postgres at " + closed + " (connection refused). Is it running?"}},
		{"no socket", "host=/nowhere user=u password=hunter2 dbname=db", []string{"cannot reach postgres at /nowhere (no such socket)"}},
		{"no such host", "postgres://u:hunter2@nowhere.invalid/db", []string{"cannot reach postgres at nowhere.invalid:5432 (no such host)"}},
		{"the wrong password", "postgres://u:hunter2@" + answering(t, refusal("28P01", `password authentication failed for user "u"`)) + "/db?sslmode=disable",
			[]string{`it refused the user "u"`, "pg_hba.conf"}},
		{"too many connections", "postgres://u:hunter2@" + answering(t, refusal("53300", "sorry, too many clients already")) + "/db?sslmode=disable",
			[]string{"no connection left", "max_connections"}},
		{"a pooler", "postgres://u:hunter2@" + answering(t, refusal("08P01", "unsupported startup parameter: lock_timeout")) + "/db?sslmode=disable",
			[]string{"unsupported startup parameter: lock_timeout", "PgBouncer"}},
		{"an old server", "postgres://u:hunter2@" + answering(t, welcome("14.13", "UTF8")) + "/db?sslmode=disable",
			[]string{"it is PostgreSQL 14.13 and the gateway needs 15 or later"}},
		{"another encoding", "postgres://u:hunter2@" + answering(t, welcome("17.2", "SQL_ASCII")) + "/db?sslmode=disable",
			[]string{"encoding is SQL_ASCII and the gateway needs UTF8"}},
		{"no TLS", "postgres://u:hunter2@" + answering(t, nil) + "/db?sslmode=require", []string{"server refused TLS connection"}},
		{"a slash in the password", "postgres://u:hun/hunter2@127.0.0.1/db", []string{postgres.ErrURL.Error()}},
		{"a bad port", "postgres://u:hunter2@127.0.0.1:hunter2/db", []string{postgres.ErrURL.Error()}},
		{"a bad escape", "postgres://u:hunter2%zz@127.0.0.1/db", []string{postgres.ErrURL.Error()}},
		{"no URL", "hunter2", []string{postgres.ErrURL.Error()}},
		{"a missing certificate", "postgres://u:hunter2@127.0.0.1/db?sslmode=verify-full&sslrootcert=/nowhere.pem", []string{"/nowhere.pem"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool, err := postgres.Open(t.Context(), postgres.Config{URL: c.url})
			if err == nil {
				pool.Close()
				t.Fatal("opened")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got  %q\nwant %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), password) {
				t.Errorf("the password is shown: %q", err)
			}
		})
	}

	t.Run("no such database", func(t *testing.T) {
		t.Parallel()
		u, err := url.Parse(postgrestest.NewURL(t))
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/nothing_here"
		_, err = postgres.Open(t.Context(), postgres.Config{URL: u.String()})
		var told *postgres.ConnectError
		if !errors.As(err, &told) || !strings.Contains(told.Reason, `no database "nothing_here"`) || told.Hint != "Create it: createdb nothing_here" {
			t.Errorf("got %v", err)
		}
	})

	t.Run("keeps the cause", func(t *testing.T) {
		t.Parallel()
		_, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://u@" + closed + "/db"})
		var cause *net.OpError
		if !errors.As(err, &cause) {
			t.Errorf("%v does not wrap a *net.OpError", err)
		}
	})
}

// closedPort is an address of this machine at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// answering is the address of a stand-in for a server that a test can't have: it says the same to every start-up.
func answering(t *testing.T, messages []pgproto3.BackendMessage) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				backend := pgproto3.NewBackend(conn, conn)
				first, err := backend.ReceiveStartupMessage()
				if err != nil {
					return
				}
				if _, tls := first.(*pgproto3.SSLRequest); tls {
					_, _ = conn.Write([]byte("N"))
					return
				}
				for _, m := range messages {
					backend.Send(m)
				}
				if backend.Flush() == nil {
					_, _ = backend.Receive() // until the other side goes
				}
			}()
		}
	}()
	return l.Addr().String()
}

func refusal(code, message string) []pgproto3.BackendMessage {
	return []pgproto3.BackendMessage{&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: message}}
}

func welcome(version, encoding string) []pgproto3.BackendMessage {
	return []pgproto3.BackendMessage{
		&pgproto3.AuthenticationOk{},
		&pgproto3.ParameterStatus{Name: "server_version", Value: version},
		&pgproto3.ParameterStatus{Name: "server_encoding", Value: encoding},
		&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}},
		&pgproto3.ReadyForQuery{TxStatus: 'I'},
	}
}

var _ postgres.Querier = pgx.Tx(nil)
