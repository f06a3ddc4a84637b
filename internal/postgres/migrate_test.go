package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

// emptyURL is the URL of a database that no migration has seen.
func emptyURL(t *testing.T) string {
	t.Helper()
	at := postgrestest.NewURL(t)
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), `drop schema gateway cascade; drop schema river cascade`); err != nil {
		t.Fatal(err)
	}
	return at
}

func open(t *testing.T, at string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: at, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func pending(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	n, err := postgres.Pending(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMigrate(t *testing.T) {
	t.Parallel()

	t.Run("applies ours and River's, once", func(t *testing.T) {
		t.Parallel()
		pool := open(t, emptyURL(t))
		list, err := postgres.Status(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		schemas := map[string]int{}
		for _, m := range list {
			schemas[m.Schema]++
			if m.Applied {
				t.Errorf("%v is applied in an empty database", m)
			}
		}
		if schemas["gateway"] == 0 || schemas["river"] < 8 || pending(t, pool) != len(list) {
			t.Errorf("%d pending of %v", pending(t, pool), schemas)
		}
		for range 2 {
			if err := postgres.Migrate(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			if n := pending(t, pool); n != 0 {
				t.Errorf("%d pending after migrating", n)
			}
		}
		var rows, versions int
		if err := pool.QueryRow(t.Context(), `select count(*), count(distinct version_id) from gateway.schema_versions`).Scan(&rows, &versions); err != nil {
			t.Fatal(err)
		}
		if rows != versions {
			t.Errorf("%d rows for %d versions: one was applied twice", rows, versions)
		}
	})

	t.Run("is done by one of four that start at once", func(t *testing.T) {
		t.Parallel()
		at := emptyURL(t)
		var all sync.WaitGroup
		for range 4 {
			pool := open(t, at) // as four processes: each has its own connections
			all.Go(func() {
				if err := postgres.Migrate(t.Context(), pool); err != nil {
					t.Errorf("migrate: %v", err)
				}
			})
		}
		all.Wait()
		if n := pending(t, open(t, at)); n != 0 {
			t.Errorf("%d pending", n)
		}
	})

	t.Run("waits for the holder of the lock as long as it may", func(t *testing.T) {
		t.Parallel()
		at := emptyURL(t)
		holder, err := pgx.Connect(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close(context.WithoutCancel(t.Context()))
		if _, err := holder.Exec(t.Context(), `select pg_advisory_lock(x'73616c6c79706f72'::bigint)`); err != nil {
			t.Fatal(err)
		}
		pool := open(t, at)
		brief, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := postgres.Migrate(brief, pool); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if err := holder.Close(t.Context()); err != nil { // as a holder that dies
			t.Fatal(err)
		}
		if err := postgres.Migrate(t.Context(), pool); err != nil {
			t.Errorf("after the holder has gone: %v", err)
		}
	})

	t.Run("leaves a database of a later version alone", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		if _, err := pool.Exec(t.Context(), `insert into gateway.schema_versions (version_id, is_applied) values (99999, true)`); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), `insert into river.river_migration (line, version) values ('main', 999)`); err != nil {
			t.Fatal(err)
		}
		if n := pending(t, pool); n != 0 {
			t.Errorf("%d pending", n)
		}
		if err := postgres.Migrate(t.Context(), pool); err != nil {
			t.Errorf("migrate: %v", err)
		}
	})
}

func TestDown(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	if _, err := postgres.EnsurePartitions(t.Context(), pool, time.Now().AddDate(0, 1, 0), 2); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for {
		undone, err := postgres.Down(t.Context(), pool)
		if errors.Is(err, postgres.ErrNothingApplied) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if undone.Version == 0 || undone.Name == "" {
			t.Errorf("undid %+v, which has no name", undone)
		}
		steps++
	}
	if steps == 0 {
		t.Fatal("nothing was undone")
	}
	rows, err := pool.Query(t.Context(), `
		select c.relname::text from pg_class c where c.relnamespace in ('gateway'::regnamespace, 'river'::regnamespace) and c.relkind in ('r', 'p')
		union all select p.proname::text from pg_proc p where p.pronamespace in ('gateway'::regnamespace, 'river'::regnamespace)`)
	if err != nil {
		t.Fatal(err)
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0] != "schema_versions" {
		t.Errorf("left over: %v", left)
	}
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Errorf("up again: %v", err)
	}
	if n := pending(t, pool); n != 0 {
		t.Errorf("%d pending after going up again", n)
	}
}
