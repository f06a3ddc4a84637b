package idempotency_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	return idempotency.Request{Tenant: uuid.MustParse("00000000-0000-7000-8000-000000000001"), Key: key, Fingerprint: idempotency.Fingerprint("POST", "/x", []byte(body), uuid.Nil)}
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
		var stored []byte
		if err := db.QueryRow(ctx, `select response from gateway.idempotency_keys where key = 'k1'`).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		// Were it not sealed, its body would stand there in base64.
		for _, form := range []string{"whsec_hunter2", base64.StdEncoding.EncodeToString([]byte("whsec_hunter2")), "Location"} {
			if bytes.Contains(stored, []byte(form)) {
				t.Errorf("the stored answer is readable: %q", stored)
			}
		}
	})

	t.Run("other content under the key is refused", func(t *testing.T) {
		var n atomic.Int64
		if _, _, err := keys.Do(ctx, request("k1", "other"), answers(&n, "x")); !errors.Is(err, idempotency.ErrReused) || n.Load() != 0 {
			t.Errorf("%v, done %d times", err, n.Load())
		}
	})

	t.Run("what is for one caller is for no other", func(t *testing.T) {
		var n atomic.Int64
		mine, yours := request("k6", ""), request("k6", "")
		mine.Fingerprint = idempotency.Fingerprint("POST", "/x", nil, uuid.New())
		yours.Fingerprint = idempotency.Fingerprint("POST", "/x", nil, uuid.New())
		if _, _, err := keys.Do(ctx, mine, answers(&n, "secret")); err != nil {
			t.Fatal(err)
		}
		if a, _, err := keys.Do(ctx, yours, answers(&n, "x")); !errors.Is(err, idempotency.ErrReused) || a.Body != nil {
			t.Errorf("%+v, %v", a, err)
		}
		if a, replayed, err := keys.Do(ctx, mine, answers(&n, "x")); err != nil || !replayed || string(a.Body) != "secret" {
			t.Errorf("%+v, %v", a, err)
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

	t.Run("an answer that is no success is not stored", func(t *testing.T) {
		_, _, err := keys.Do(ctx, request("k5", ""), func(context.Context, idempotency.Tx) (idempotency.Answer, error) {
			return idempotency.Answer{Status: 409}, nil
		})
		if err == nil {
			t.Error("no error")
		}
		var n atomic.Int64
		if _, replayed, err := keys.Do(ctx, request("k5", ""), answers(&n, "x")); err != nil || replayed || n.Load() != 1 {
			t.Errorf("%v, %v, done %d times", replayed, err, n.Load())
		}
	})

	t.Run("a deadlock is tried again, and not for ever", func(t *testing.T) {
		for _, failures := range []int64{1, 2, 1000} {
			var n atomic.Int64
			r := request(fmt.Sprintf("deadlocks-%d", failures), "")
			_, _, err := keys.Do(ctx, r, func(ctx context.Context, tx idempotency.Tx) (idempotency.Answer, error) {
				if n.Add(1) <= failures {
					_, err := tx.Exec(ctx, `do $$ begin raise exception 'a ring' using errcode = '40P01'; end $$`)
					return idempotency.Answer{}, err
				}
				return idempotency.Answer{Status: 201}, nil
			})
			if want := failures < 3; (err == nil) != want || n.Load() != min(failures+1, 3) {
				t.Errorf("of %d deadlocks: %v, tried %d times", failures, err, n.Load())
			}
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

// A key that has expired and is being used again belongs to its new request: the sweep must neither wait for that nor
// delete what it stores.
func TestExpiryLeavesAKeyThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	db, keys := setup(t, time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, key := range []string{"a", "b"} {
		if _, _, err := keys.Do(ctx, request(key, "1"), answers(new(atomic.Int64), "x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(ctx, `update gateway.idempotency_keys set expires_at = now() - interval '1 s'`); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	// As a repeat of "a" stores its answer, before it commits.
	if _, err := tx.Exec(ctx, `update gateway.idempotency_keys set expires_at = now() + interval '1 hour' where key = 'a'`); err != nil {
		t.Fatal(err)
	}
	type result struct {
		deleted int64
		err     error
	}
	done := make(chan result, 1)
	go func() { n, err := keys.Expire(ctx); done <- result{n, err} }()
	waits := func() (waits bool) {
		err := db.QueryRow(ctx, `
			select exists (select from pg_locks l join pg_stat_activity a using (pid)
				where not l.granted and a.datname = current_database())`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	}
	var swept result
	for ended := false; !ended; {
		select {
		case swept = <-done:
			ended = true
		default:
			if waits() {
				t.Error("the sweep waits for a request")
				if err := tx.Commit(ctx); err != nil {
					t.Fatal(err)
				}
				swept, ended = <-done, true
			}
		}
	}
	if swept.err != nil || swept.deleted != 1 {
		t.Errorf("%d deleted, %v", swept.deleted, swept.err)
	}
	if err := tx.Commit(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	var left string
	if err := db.QueryRow(ctx, `select coalesce(string_agg(key, ' '), '') from gateway.idempotency_keys`).Scan(&left); err != nil || left != "a" {
		t.Errorf("the keys %q are left, %v", left, err)
	}
}
