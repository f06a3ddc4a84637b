package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/signing"
)

func setup(t *testing.T, life time.Duration) (*pgxpool.Pool, *idempotency.Keys) {
	t.Helper()
	key, err := signing.NewKey("test")
	if err != nil {
		t.Fatal(err)
	}
	ring, err := signing.ParseKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	db := postgrestest.New(t)
	return db, idempotency.New(db, ring, life)
}

func request(key, body string) idempotency.Request {
	return idempotency.Request{Tenant: uuid.MustParse("00000000-0000-7000-8000-000000000001"), Key: key, Fingerprint: idempotency.Fingerprint("POST", "/x", []byte(body))}
}

// answers is a request that is carried out by counting it.
func answers(n *atomic.Int64, body string) func(context.Context, idempotency.Tx) (idempotency.Answer, error) {
	return func(context.Context, idempotency.Tx) (idempotency.Answer, error) {
		n.Add(1)
		return idempotency.Answer{Status: 201, Header: map[string]string{"Location": "/x/1"}, Body: []byte(body)}, nil
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	db, keys := setup(t, 0)
	ctx := context.Background()

	t.Run("a repeat gets the first answer, and nothing is done again", func(t *testing.T) {
		var n atomic.Int64
		for i, want := range []bool{false, true, true} {
			a, replayed, err := keys.Do(ctx, request("k1", "body"), answers(&n, "whsec_hunter2"))
			if err != nil || replayed != want || a.Status != 201 || string(a.Body) != "whsec_hunter2" || a.Header["Location"] != "/x/1" {
				t.Errorf("call %d: %+v, %v, %v", i+1, a, replayed, err)
			}
		}
		if n.Load() != 1 {
			t.Errorf("done %d times", n.Load())
		}
		var row string
		if err := db.QueryRow(ctx, `select k::text || convert_from(response, 'LATIN1') from gateway.idempotency_keys k`).Scan(&row); err != nil || strings.Contains(row, "hunter2") {
			t.Errorf("the stored answer is readable, or not there: %v", err)
		}
	})

	t.Run("other content under the key is refused", func(t *testing.T) {
		var n atomic.Int64
		if _, _, err := keys.Do(ctx, request("k1", "other"), answers(&n, "x")); !errors.Is(err, idempotency.ErrReused) || n.Load() != 0 {
			t.Errorf("%v, done %d times", err, n.Load())
		}
	})

	t.Run("another tenant's key is another", func(t *testing.T) {
		var n atomic.Int64
		r := request("k1", "other")
		r.Tenant = uuid.New()
		if _, replayed, err := keys.Do(ctx, r, answers(&n, "x")); err != nil || replayed || n.Load() != 1 {
			t.Errorf("%v, %v", replayed, err)
		}
	})

	t.Run("what fails leaves nothing, and the key is free", func(t *testing.T) {
		broken := errors.New("broken")
		_, _, err := keys.Do(ctx, request("k2", ""), func(ctx context.Context, tx idempotency.Tx) (idempotency.Answer, error) {
			_, err := tx.Exec(ctx, `insert into gateway.tenants (name) values ('left behind')`)
			return idempotency.Answer{}, errors.Join(err, broken)
		})
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		var left int
		if err := db.QueryRow(ctx, `select count(*) from gateway.tenants where name = 'left behind'`).Scan(&left); err != nil || left != 0 {
			t.Errorf("%d rows, %v", left, err)
		}
		var n atomic.Int64
		if _, replayed, err := keys.Do(ctx, request("k2", "other"), answers(&n, "x")); err != nil || replayed {
			t.Errorf("%v, %v", replayed, err)
		}
	})

	t.Run("of 50 at once one is carried out, and those that wait get its answer", func(t *testing.T) {
		var n atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				r := request("k3", "")
				r.Wait = 20 * time.Second
				if a, _, err := keys.Do(ctx, r, answers(&n, "one")); err != nil || string(a.Body) != "one" {
					t.Errorf("%+v, %v", a, err)
				}
			}()
		}
		wg.Wait()
		if n.Load() != 1 {
			t.Errorf("done %d times", n.Load())
		}
	})

	t.Run("one that does not wait hears that the first is in progress", func(t *testing.T) {
		for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
			_, _, err := keys.Do(ctx, request("k4", ""), func(ctx context.Context, _ idempotency.Tx) (idempotency.Answer, error) {
				var n atomic.Int64
				r := request("k4", "")
				r.Wait = wait
				if _, _, err := keys.Do(ctx, r, answers(&n, "x")); !errors.Is(err, idempotency.ErrInProgress) || n.Load() != 0 {
					t.Errorf("waiting %v: %v, done %d times", wait, err, n.Load())
				}
				return idempotency.Answer{}, errors.New("enough")
			})
			if err == nil {
				t.Error("no error")
			}
		}
	})
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	db, keys := setup(t, time.Millisecond)
	ctx := context.Background()
	var n atomic.Int64
	for _, key := range []string{"a", "b"} {
		if _, _, err := keys.Do(ctx, request(key, "1"), answers(&n, "x")); err != nil {
			t.Fatal(err)
		}
	}
	// Both have expired: an expired key is free, for other content too.
	if _, err := db.Exec(ctx, `select pg_sleep(0.01)`); err != nil {
		t.Fatal(err)
	}
	if _, replayed, err := keys.Do(ctx, request("a", "2"), answers(&n, "x")); err != nil || replayed || n.Load() != 3 {
		t.Errorf("%v, %v, done %d times", replayed, err, n.Load())
	}
	if _, err := db.Exec(ctx, `update gateway.idempotency_keys set expires_at = now() + interval '1 hour' where key = 'a'`); err != nil {
		t.Fatal(err)
	}
	if deleted, err := keys.Expire(ctx); err != nil || deleted != 1 {
		t.Errorf("%d deleted, %v", deleted, err)
	}
}
