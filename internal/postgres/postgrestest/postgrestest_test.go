package postgrestest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

// asChild makes a test of this binary a program for the tests below: it clones, says that it has, and waits.
const asChild = "POSTGRESTEST_CHILD"

func TestChild(t *testing.T) {
	if os.Getenv(asChild) == "" {
		t.Skip("a program for the other tests, and no test")
	}
	pool := postgrestest.New(t)
	rows, err := pool.Query(t.Context(), `select datname::text from pg_database where datname like 'sallyport\_test\_%'`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var directory string
	if err := pool.QueryRow(t.Context(), `select current_setting('data_directory')`).Scan(&directory); err != nil {
		t.Fatal(err)
	}
	fmt.Println("child", directory, strings.Join(names, ","))
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until it is told to end, or killed
}

// child is a test binary of its own.
type child struct {
	cmd       *exec.Cmd
	out       io.Reader
	directory string   // its server's
	databases []string // the tests' databases on its server
	end       func() error
}

// startChild starts one; await waits until it has cloned.
func startChild(t *testing.T, env ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=2m")}
	c.cmd.Env = append(append(os.Environ(), asChild+"=yes"), env...)
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.end = sync.OnceValue(func() error {
		in.Close()
		return c.cmd.Wait()
	})
	t.Cleanup(func() { _ = c.end() })
	return c
}

func (c *child) await(t *testing.T) *child {
	t.Helper()
	lines := bufio.NewScanner(c.out)
	var said []string
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "child" {
			c.directory, c.databases = fields[1], strings.Split(fields[2], ",")
			return c
		}
		said = append(said, lines.Text())
	}
	t.Fatalf("the child did not start: %s", strings.Join(said, "\n"))
	return nil
}

func TestNew(t *testing.T) {
	t.Parallel()

	t.Run("gives each test a migrated, empty database of its own", func(t *testing.T) {
		t.Parallel()
		first, second := postgrestest.New(t), postgrestest.New(t)
		if _, err := first.Exec(t.Context(), `insert into gateway.tenants (name) values ('mine')`); err != nil {
			t.Fatal(err)
		}
		for pool, want := range map[*pgxpool.Pool]int{first: 1, second: 0} {
			var got int
			if err := pool.QueryRow(t.Context(), `select count(*) from gateway.tenants`).Scan(&got); err != nil || got != want {
				t.Errorf("found %d tenants (%v), want %d", got, err, want)
			}
		}
		if n, err := postgres.Pending(t.Context(), second); err != nil || n != 0 {
			t.Errorf("%d migrations are pending (%v)", n, err)
		}
	})

	t.Run("drops it at the test's end, whoever is connected", func(t *testing.T) {
		t.Parallel()
		var name string
		var conn *pgx.Conn
		t.Run("a test", func(t *testing.T) {
			pool := postgrestest.New(t)
			name = pool.Config().ConnConfig.Database
			var err error
			if conn, err = pgx.Connect(t.Context(), postgrestest.URL(pool)); err != nil {
				t.Fatal(err)
			}
		})
		defer conn.Close(context.WithoutCancel(t.Context()))
		var exists bool
		if err := postgrestest.New(t).QueryRow(t.Context(), `select exists (select from pg_database where datname = $1)`, name).Scan(&exists); err != nil {
			t.Fatal(err)
		}
		if exists {
			t.Errorf("the database %s is still there", name)
		}
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("a connection to a dropped database is alive")
		}
	})
}

func TestSlots(t *testing.T) {
	t.Parallel()
	// Not t.TempDir, whose path is too long for a socket.
	dir, err := os.MkdirTemp("", "slots-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // the server's user passes through
		t.Fatal(err)
	}
	slots := "GATEWAY_TEST_PG_DIR=" + dir

	first, second := startChild(t, slots), startChild(t, slots)
	first.await(t)
	second.await(t)
	if first.directory == second.directory {
		t.Errorf("two binaries share the server in %s", first.directory)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.end()

	third := startChild(t, slots).await(t)
	if third.directory != first.directory {
		t.Errorf("the slot of a killed binary (%s) was not used again: %s", first.directory, third.directory)
	}
	if len(third.databases) != 1 || third.databases[0] == first.databases[0] {
		t.Errorf("a killed binary's databases were not cleared: %v, then %v", first.databases, third.databases)
	}
	for _, c := range []*child{second, third} {
		if err := c.end(); err != nil {
			t.Errorf("a child failed: %v", err)
		}
	}
}

func TestExistingServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Server(t)
	at := "GATEWAY_TEST_DATABASE_URL=" + server.URL()
	children := []*child{startChild(t, at), startChild(t, at)} // both want the template made
	for _, c := range children {
		c.await(t)
		if !strings.HasPrefix(c.directory, server.Dir()) {
			t.Errorf("a child used the server in %s, not the one in %s", c.directory, server.Dir())
		}
		if err := c.end(); err != nil {
			t.Errorf("a child failed: %v", err)
		}
	}
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var templates, clones int
	if err := conn.QueryRow(t.Context(), `
		select count(*) filter (where datname like 'sallyport\_template\_%'), count(*) filter (where datname like 'sallyport\_test\_%')
		from pg_database`).Scan(&templates, &clones); err != nil {
		t.Fatal(err)
	}
	if templates != 1 || clones != 0 {
		t.Errorf("%d templates and %d clones are left, want 1 and 0", templates, clones)
	}
}
