package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

// ledger is a router that writes each event into a table of its own, once for each row it is asked to make of
// it: what an event is handed over to, seen from outside.
type ledger struct {
	rows   int // made of each event
	before func(tx pgx.Tx) error
	judge  func(e outbox.Claimed) error // of each event; may panic
	passes chan int                     // the events of each committed pass
}

func newLedger(t *testing.T, db *pgxpool.Pool, rows int) *ledger {
	t.Helper()
	exec(t, db, `create table if not exists ledger (event_id uuid not null, n int not null, tenant_id uuid not null, at serial)`)
	return &ledger{rows: rows, passes: make(chan int, 1000)}
}

func (l *ledger) RouteTx(_ context.Context, _ pgx.Tx, events []outbox.Claimed) (outbox.Route, error) {
	return &entries{ledger: l, events: events}, nil
}

type entries struct {
	*ledger
	events []outbox.Claimed
	wrote  int
}

func (e *entries) Size(int) int                     { return e.rows }
func (e *entries) Describe(_ int, f *outbox.Fanout) { f.Deliveries = e.rows }
func (e *entries) Committed()                       { e.passes <- e.wrote }
func (e *entries) WriteTx(ctx context.Context, tx pgx.Tx, n int) error {
	e.wrote = n
	for _, ev := range e.events[:n] {
		if e.judge != nil {
			if err := e.judge(ev); err != nil {
				return err
			}
		}
		for i := range e.rows {
			if _, err := tx.Exec(ctx, `insert into ledger (event_id, n, tenant_id) values ($1, $2, $3)`, ev.ID, i, ev.TenantID); err != nil {
				return err
			}
		}
	}
	if e.before != nil {
		return e.before(tx)
	}
	return nil
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func count(t *testing.T, db *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// start runs relays until the test ends.
func start(t *testing.T, relays ...*outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, r := range relays {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := r.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		}()
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// logTo writes the relay's log into the test's, so that a failing test says why.
func logTo(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

func post(tenant uuid.UUID) outbox.Post {
	return outbox.Post{TenantID: tenant, Type: "invoice.paid", Data: []byte(`{"n": 1.0}`)}
}

func accept(t *testing.T, w *outbox.Writer, p outbox.Post) outbox.Receipt {
	t.Helper()
	r, err := w.Accept(context.Background(), p)
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	return r
}

// next waits for a pass, and says how many events it handed over.
func next(t *testing.T, l *ledger) int {
	t.Helper()
	select {
	case n := <-l.passes:
		return n
	case <-time.After(30 * time.Second):
		t.Fatal("no pass")
		return 0
	}
}

// eventually looks again until a condition holds.
func eventually(t *testing.T, missing string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatal(missing)
		case <-tick.C:
		}
	}
}

// handed waits until n events were handed over.
func handed(t *testing.T, l *ledger, n int) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for got := 0; got < n; {
		select {
		case more := <-l.passes:
			got += more
		case <-deadline:
			t.Fatalf("%d of %d events were handed over", got, n)
		}
	}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	ctx := context.Background()
	tenant := uuid.New()
	w, r := outbox.NewWriter(db, nil), outbox.NewReader(db)

	t.Run("what is answered is committed, and its bytes are kept", func(t *testing.T) {
		data := []byte("{ \"n\":12345678901234567890, \"z\":-0,\"f\":1.0, \"s\":\"\\u00e9<&>\\u0000\" }")
		receipt := accept(t, w, outbox.Post{TenantID: tenant, Type: "a.b", Data: data, Scopes: []string{"project/42"}})
		e, err := r.Get(ctx, tenant, receipt.ID)
		if err != nil || string(e.Data) != string(data) || e.State != outbox.Pending || e.Scopes[0] != "project/42" {
			t.Fatalf("Get = %+v, %v", e, err)
		}
		if !e.OccurredAt.Before(e.AcceptedAt.Add(time.Second)) || receipt.AcceptedAt != e.AcceptedAt {
			t.Errorf("times: occurred %v, accepted %v, receipt %v", e.OccurredAt, e.AcceptedAt, receipt.AcceptedAt)
		}
	})

	t.Run("another tenant's event is not there", func(t *testing.T) {
		receipt := accept(t, w, post(tenant))
		if _, err := r.Get(ctx, uuid.New(), receipt.ID); err != outbox.ErrNotFound {
			t.Errorf("Get = %v, want ErrNotFound", err)
		}
	})

	t.Run("a uid is taken once", func(t *testing.T) {
		p := post(tenant)
		uid := "order-1"
		p.UID = &uid
		first := accept(t, w, p)
		again := accept(t, w, p)
		if again.ID != first.ID || !again.Duplicate || again.AcceptedAt != first.AcceptedAt {
			t.Errorf("again = %+v, first %+v", again, first)
		}
		other := p
		other.Data = []byte(`{"n": 1}`)
		if _, err := w.Accept(ctx, other); err != outbox.ErrUIDConflict {
			t.Errorf("other content: %v, want ErrUIDConflict", err)
		}
		foreign := p
		foreign.TenantID = uuid.New()
		if r := accept(t, w, foreign); r.Duplicate || r.ID == first.ID {
			t.Errorf("another tenant's uid = %+v", r)
		}
	})

	t.Run("200 posts at once share commits, and each gets its own receipt", func(t *testing.T) {
		type pair struct {
			n int
			r outbox.Receipt
		}
		pairs := make(chan pair, 200)
		var wg sync.WaitGroup
		for n := range 200 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				p := outbox.Post{TenantID: tenant, Type: "shared.x", Data: fmt.Appendf(nil, "%d", n), Scopes: []string{"a", "b/c"}}
				if n%10 == 0 {
					uid := fmt.Sprint("shared-", n)
					p.UID = &uid
				}
				if n%50 == 7 { // fails in the database, and must fail alone
					p.Type = strings.Repeat("x", 129)
				}
				r, err := w.Accept(ctx, p)
				if (err != nil) != (n%50 == 7) {
					t.Errorf("post %d: %v", n, err)
				}
				pairs <- pair{n, r}
			}()
		}
		wg.Wait()
		close(pairs)
		for p := range pairs {
			if p.n%50 == 7 {
				continue
			}
			e, err := r.Get(ctx, tenant, p.r.ID)
			if err != nil || string(e.Data) != fmt.Sprint(p.n) || len(e.Scopes) != 2 || !e.AcceptedAt.Equal(p.r.AcceptedAt) {
				t.Errorf("post %d: receipt %+v, event %+v, %v", p.n, p.r, e, err)
			}
		}
		if n := count(t, db, `select count(*) from gateway.events where type = 'shared.x'`); n != 196 {
			t.Errorf("%d events", n)
		}
		if n := count(t, db, `select count(distinct xid) from gateway.events where type = 'shared.x'`); n > 190 {
			t.Errorf("%d transactions for 196 events: nothing was shared", n)
		}
	})

	t.Run("a post whose uid another transaction holds does not hold up the others", func(t *testing.T) {
		tx, err := db.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(ctx)
		if _, err := tx.Exec(ctx, `insert into gateway.events (tenant_id, uid, type, occurred_at, data, fingerprint) values ($1, 'held', 'a', now(), '1', '')`, tenant); err != nil {
			t.Fatal(err)
		}
		uid := "held"
		p := post(tenant)
		p.UID = &uid
		answered := make(chan outbox.Receipt, 1)
		go func() {
			r, err := w.Accept(ctx, p)
			if err != nil {
				t.Errorf("Accept: %v", err)
			}
			answered <- r
		}()
		for range 20 {
			accept(t, w, post(tenant))
		}
		select {
		case r := <-answered:
			t.Errorf("the post did not wait for the transaction: %+v", r)
		default:
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		if r := <-answered; r.Duplicate {
			t.Errorf("a duplicate of what was rolled back: %+v", r)
		}
	})

	t.Run("50 posts of one uid at once are one event", func(t *testing.T) {
		p := post(tenant)
		uid := "raced"
		p.UID = &uid
		ids := make(chan uuid.UUID, 50)
		var wg sync.WaitGroup
		for range 50 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				r, err := w.Accept(ctx, p)
				if err != nil {
					t.Errorf("Accept: %v", err)
				}
				ids <- r.ID
			}()
		}
		wg.Wait()
		first := <-ids
		for range 49 {
			if id := <-ids; id != first {
				t.Errorf("ids %v and %v", id, first)
			}
		}
		if n := count(t, db, `select count(*) from gateway.events where uid = 'raced'`); n != 1 {
			t.Errorf("%d events", n)
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	ctx := context.Background()
	tenant := uuid.New()

	t.Run("500 events of one instant, 7 a page: each once", func(t *testing.T) {
		exec(t, db, `insert into gateway.events (id, tenant_id, type, occurred_at, accepted_at, data, fingerprint)
			select gateway.uuid_v7_beside('01900000-0000-7000-8000-000000000000'), $1, 'a', now(), now(), '1', '' from generate_series(1, 500)`, tenant)
		seen := make(map[uuid.UUID]bool)
		q := outbox.ListQuery{Limit: 7}
		for more := true; more; {
			var page []outbox.Event
			var err error
			if page, more, err = outbox.NewReader(db).List(ctx, tenant, q); err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				if seen[e.ID] {
					t.Errorf("%v twice", e.ID)
				}
				seen[e.ID] = true
			}
			q.Before = page[len(page)-1].ID
		}
		if len(seen) != 500 {
			t.Errorf("%d events", len(seen))
		}
	})
}

func TestRelay(t *testing.T) {
	t.Parallel()

	t.Run("interleaved commits lose nothing", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		ctx := context.Background()
		tenant := uuid.New()
		l := newLedger(t, db, 1)
		relay := outbox.NewRelay(db, outbox.RelayConfig{Poll: 50 * time.Millisecond}, logTo(t), l)
		start(t, relay)

		// The first writes its row, and so takes the lower seq, but commits last.
		tx, err := db.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(ctx)
		var early uuid.UUID
		var earlySeq, lateSeq int64
		const insert = `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint) values ($1, 'a', now(), '1', '') returning id, seq`
		if err := tx.QueryRow(ctx, insert, tenant).Scan(&early, &earlySeq); err != nil {
			t.Fatal(err)
		}
		var late uuid.UUID
		if err := db.QueryRow(ctx, insert, tenant).Scan(&late, &lateSeq); err != nil {
			t.Fatal(err)
		}
		if earlySeq >= lateSeq {
			t.Fatalf("seq %d and %d: the test does not interleave", earlySeq, lateSeq)
		}
		relay.Poke()
		handed(t, l, 1) // the late one, with the higher seq
		if n := count(t, db, `select count(*) from ledger where event_id = $1`, late); n != 1 {
			t.Fatalf("the committed event was handed over %d times", n)
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		handed(t, l, 1)
		if n := count(t, db, `select count(*) from ledger where event_id = $1`, early); n != 1 {
			t.Errorf("the event that committed late was handed over %d times", n)
		}
	})

	t.Run("four relays hand over each of 3,000 events once", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		l := newLedger(t, db, 1)
		exec(t, db, `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint)
			select ('00000000-0000-0000-0000-00000000000' || n % 3)::uuid, 'a', now(), '1', '' from generate_series(1, 3000) n`)
		var relays []*outbox.Relay
		for range 4 {
			relays = append(relays, outbox.NewRelay(db, outbox.RelayConfig{BatchEvents: 50, Poll: 50 * time.Millisecond}, logTo(t), l))
		}
		start(t, relays...)
		handed(t, l, 3000)
		if n := count(t, db, `select count(*) from ledger`); n != 3000 {
			t.Errorf("%d rows", n)
		}
		if n := count(t, db, `select count(distinct event_id) from ledger`); n != 3000 {
			t.Errorf("%d events", n)
		}
		if n := count(t, db, `select count(*) from gateway.events where fanned_out_at is null`); n != 0 {
			t.Errorf("%d unmarked", n)
		}
	})

	t.Run("a pass that fails leaves nothing behind, and is made again", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		l := newLedger(t, db, 1)
		exec(t, db, `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint) select gen_random_uuid(), 'a', now(), '1', '' from generate_series(1, 10)`)
		failed := 0
		l.before = func(tx pgx.Tx) error {
			if failed++; failed < 3 {
				// The server ends the pass's own connection, after it wrote.
				_, err := tx.Exec(context.Background(), `select pg_terminate_backend(pg_backend_pid())`)
				return err
			}
			return nil
		}
		start(t, outbox.NewRelay(db, outbox.RelayConfig{BackoffMin: time.Millisecond}, logTo(t), l))
		handed(t, l, 10)
		if n := count(t, db, `select count(*) from ledger`); n != 10 {
			t.Errorf("%d rows: the failing passes left some", n)
		}
		if failed < 3 {
			t.Errorf("%d passes: none failed", failed)
		}
		if n := count(t, db, `select count(*) from gateway.events where relay_failures > 0`); n != 0 {
			t.Errorf("a lost connection was counted on %d rows", n)
		}
	})

	for name, fail := range map[string]func() error{
		"a router's error":        func() error { return errors.New("no such thing") },
		"a panic":                 func() error { panic("no such thing") },
		"a value that is refused": func() error { return &pgconn.PgError{Code: "22021"} },
	} {
		t.Run("one bad row of 200 blocks no other, and is set aside at its fifth failure, over restarts: "+name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			l := newLedger(t, db, 1)
			exec(t, db, `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint) select gen_random_uuid(), 'a', now(), '1', '' from generate_series(1, 199)`)
			bad := accept(t, outbox.NewWriter(db, nil), post(uuid.New())).ID
			l.judge = func(e outbox.Claimed) error {
				if e.ID == bad {
					return fail()
				}
				return nil
			}
			config := outbox.RelayConfig{BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond, Poll: 5 * time.Millisecond}
			stop := start(t, outbox.NewRelay(db, config, logTo(t), l))
			handed(t, l, 199)
			eventually(t, "two failures are not counted", func() bool {
				return count(t, db, `select relay_failures from gateway.events where id = $1`, bad) >= 2
			})
			stop()
			had := count(t, db, `select relay_failures from gateway.events where id = $1`, bad)
			start(t, outbox.NewRelay(db, config, logTo(t), l))
			eventually(t, "it is not poisoned", func() bool {
				return count(t, db, `select count(*) from gateway.events where id = $1 and poisoned_at is not null and relay_failures = 5`, bad) == 1
			})
			if n := count(t, db, `select count(*) from ledger`); n != 199 || had > 5 {
				t.Errorf("%d rows; %d failures before the restart", n, had)
			}
			var text string
			if err := db.QueryRow(context.Background(), `select relay_error from gateway.events where id = $1`, bad).Scan(&text); err != nil || text == "" || strings.Contains(text, "no such thing") {
				t.Errorf("the event tells %q, %v", text, err)
			}
		})
	}

	t.Run("when every one of many rows fails, none is counted", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		l := newLedger(t, db, 1)
		exec(t, db, `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint) select gen_random_uuid(), 'a', now(), '1', '' from generate_series(1, 6)`)
		var calls atomic.Int64
		l.judge = func(outbox.Claimed) error { calls.Add(1); return errors.New("a bad deploy") }
		stop := start(t, outbox.NewRelay(db, outbox.RelayConfig{BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond}, logTo(t), l))
		eventually(t, "the relay does not try on", func() bool { return calls.Load() > 30 })
		stop()
		if n := count(t, db, `select count(*) from gateway.events where relay_failures > 0 or poisoned_at is not null`); n != 0 {
			t.Errorf("%d rows were counted", n)
		}
		l.judge = nil
		start(t, outbox.NewRelay(db, outbox.RelayConfig{}, logTo(t), l))
		handed(t, l, 6)
	})

	t.Run("an event of a day without partitions is handed over", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		l := newLedger(t, db, 1)
		exec(t, db, `insert into gateway.events (id, tenant_id, type, occurred_at, data, fingerprint)
			values (gateway.uuid_v7_beside(gateway.uuid_floor('2025-01-01')), gen_random_uuid(), 'a', now(), '1', '')`)
		l.before = func(tx pgx.Tx) error {
			_, err := tx.Exec(context.Background(), `insert into gateway.deliveries (event_id, endpoint_id, id, tenant_id, type, accepted_at, state)
				select event_id, gen_random_uuid(), gen_random_uuid(), tenant_id, 'a', now(), 'pending' from ledger`)
			return err
		}
		start(t, outbox.NewRelay(db, outbox.RelayConfig{}, logTo(t), l))
		handed(t, l, 1)
		if n := count(t, db, `select count(*) from gateway.events where relay_failures > 0`); n != 0 {
			t.Error("the missing partition was counted")
		}
	})

	t.Run("a tenant with a huge backlog does not keep out another", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		l := newLedger(t, db, 1)
		big, small := uuid.New(), uuid.New()
		const insert = `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint) select $1, 'a', now(), '1', '' from generate_series(1, $2)`
		exec(t, db, insert, big, 2000)
		exec(t, db, insert, small, 5)
		start(t, outbox.NewRelay(db, outbox.RelayConfig{}, logTo(t), l))
		if first := next(t, l); first != 105 {
			t.Errorf("the first pass took %d events, want 100 of one tenant and 5 of the other", first)
		}
		if n := count(t, db, `select count(*) from (select tenant_id from ledger order by at limit 105) f where tenant_id = $1`, small); n != 5 {
			t.Errorf("%d of the small tenant's events in the first pass", n)
		}
	})

	t.Run("a pass is bound by what it makes, but takes its first event whole", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		l := newLedger(t, db, 7)
		exec(t, db, `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint) select gen_random_uuid(), 'a', now(), '1', '' from generate_series(1, 5)`)
		start(t, outbox.NewRelay(db, outbox.RelayConfig{BatchDeliveries: 15}, logTo(t), l))
		for _, want := range []int{2, 2, 1} {
			if got := next(t, l); got != want {
				t.Errorf("a pass of %d events, want %d", got, want)
			}
		}
		one := newLedger(t, db, 20)
		exec(t, db, `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint) select gen_random_uuid(), 'b', now(), '1', '' from generate_series(1, 2)`)
		start(t, outbox.NewRelay(db, outbox.RelayConfig{BatchDeliveries: 15}, logTo(t), one))
		for range 2 {
			select {
			case got := <-one.passes:
				if got != 1 {
					t.Errorf("a pass of %d events, want 1", got)
				}
			case got := <-l.passes: // the other relay took it
				if got == 0 {
					t.Error("an empty pass was committed")
				}
			}
		}
	})

	t.Run("the claim orders by seq within a tenant", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		l := newLedger(t, db, 1)
		exec(t, db, `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint) select '00000000-0000-0000-0000-000000000001', 'a', now(), '1', '' from generate_series(1, 300)`)
		start(t, outbox.NewRelay(db, outbox.RelayConfig{BatchEvents: 100}, logTo(t), l))
		handed(t, l, 300)
		if n := count(t, db, `select count(*) from (select e.seq, lag(e.seq) over (order by l.at) as before from ledger l join gateway.events e on e.id = l.event_id) s where before > seq`); n != 0 {
			t.Errorf("%d events out of order", n)
		}
	})

	t.Run("a commit wakes the relay of another process", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.New(t)
		conn, err := db.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		if _, err := conn.Exec(context.Background(), `listen gateway_events`); err != nil {
			t.Fatal(err)
		}
		accept(t, outbox.NewWriter(db, nil), post(uuid.New()))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		n, err := conn.Conn().WaitForNotification(ctx)
		if err != nil || n.Channel != outbox.Channel || n.Payload != "" {
			t.Errorf("notification = %+v, %v", n, err)
		}
	})
}
