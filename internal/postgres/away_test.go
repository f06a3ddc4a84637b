package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

func TestAwayTellsTheDatabaseFromTheStatement(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		away bool
	}{
		"no error":         {nil, false},
		"some error":       {errors.New("x"), false},
		"no row":           {pgx.ErrNoRows, false},
		"cancelled":        {context.Canceled, false},
		"out of time":      {fmt.Errorf("read: %w", context.DeadlineExceeded), true},
		"cut off":          {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		"shutting down":    {&pgconn.PgError{Code: "57P01"}, true},
		"a full disk":      {&pgconn.PgError{Code: "53100"}, true},
		"read-only":        {&pgconn.PgError{Code: "25006"}, true},
		"a cut connection": {&pgconn.PgError{Code: "08006"}, true},
		"a duplicate":      {&pgconn.PgError{Code: "23505"}, false},
		"a typing error":   {&pgconn.PgError{Code: "42601"}, false},
		"no code":          {&pgconn.PgError{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := postgres.Away(test.err); got != test.away {
				t.Errorf("Away(%v) = %v", test.err, got)
			}
		})
	}
}

func TestAwayKnowsWhatAPoolSays(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	ctx := t.Context()

	_, err := pool.Exec(ctx, `set statement_timeout = 1; select pg_sleep(5)`)
	if !postgres.Away(err) {
		t.Errorf("a statement that took too long: %v", err)
	}
	if _, err = pool.Exec(ctx, `select no_such_column`); err == nil || postgres.Away(err) {
		t.Errorf("a wrong statement: %v", err)
	}
	gone, err := postgres.Open(ctx, postgres.Config{URL: postgrestest.URL(pool), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	if _, err = gone.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`); !postgres.Away(err) {
		t.Errorf("a connection that was ended: %v", err)
	}
}
