package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/batch"
)

// Channel is where a commit of events tells the relays of all processes. The payload is always empty: the hint
// is that there is something, never what, and Postgres then sends it once for a whole transaction.
const Channel = "gateway_events"

const (
	// acceptBatch is how many posts share a statement and a commit, at most.
	acceptBatch = 64
	// acceptTime bounds a batch: its callers have contexts of their own, which it outlives.
	acceptTime = 15 * time.Second
)

// Writer appends events to the outbox. Posts that come together share a statement and a commit; a lone one does not
// wait.
type Writer struct {
	db   *pgxpool.Pool
	poke func()
	// Posts with a uid may wait for another transaction that holds the same one; they must not hold up the others.
	plain, named *batch.Batcher[Post, accepted]
}

// accepted is what became of one post of a batch.
type accepted struct {
	receipt Receipt
	taken   bool // by another event, or another post of the batch
	err     error
}

// NewWriter returns a writer. poke wakes a relay in this process after each commit; it may be nil.
func NewWriter(db *pgxpool.Pool, poke func()) *Writer {
	if poke == nil {
		poke = func() {}
	}
	w := &Writer{db: db, poke: poke}
	w.plain = batch.New(acceptBatch, w.acceptAll)
	w.named = batch.New(acceptBatch, w.acceptAll)
	return w
}

// Accept stores one event and returns once it is committed. A post whose uid is taken returns the receipt of the
// event that has it, as a duplicate, or ErrUIDConflict if the content differs. If ctx ends first, the event may have
// been stored or not.
func (w *Writer) Accept(ctx context.Context, p Post) (Receipt, error) {
	lane := w.plain
	if p.UID != nil {
		lane = w.named
	}
	a, err := lane.Do(ctx, p)
	switch {
	case err != nil:
		return Receipt{}, err
	case a.err != nil:
		return Receipt{}, a.err
	case a.taken:
		there, err := duplicates(ctx, w.db, []Post{p})
		if err != nil {
			return Receipt{}, err
		}
		return there[0].Receipt, there[0].Err
	}
	return a.receipt, nil
}

// Outcome is what became of one post of several: a receipt, or ErrUIDConflict.
type Outcome struct {
	Receipt Receipt
	Err     error
}

// AcceptTx stores events within the caller's transaction, in one statement, and says what became of each. A uid that is
// there twice is a duplicate of its first post, or a conflict. Whoever commits calls Poke afterwards.
func (w *Writer) AcceptTx(ctx context.Context, tx pgx.Tx, posts []Post) ([]Outcome, error) {
	list, err := insert(ctx, tx, posts)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(posts))
	var taken []Post
	var at []int // which post each is
	for i := range posts {
		if outcomes[i].Receipt = list[i].receipt; list[i].taken {
			taken, at = append(taken, posts[i]), append(at, i)
		}
	}
	if len(taken) == 0 {
		return outcomes, nil
	}
	there, err := duplicates(ctx, tx, taken)
	if err != nil {
		return nil, err
	}
	for k, o := range there {
		outcomes[at[k]] = o
	}
	return outcomes, nil
}

// Poke wakes the relay of this process, once events have been committed.
func (w *Writer) Poke() { w.poke() }

// acceptAll stores a batch. If it fails for what one post holds, each is tried alone: one bad post fails alone.
func (w *Writer) acceptAll(ctx context.Context, posts []Post) ([]accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTime)
	defer cancel()
	list, err := insert(ctx, w.db, posts)
	var pg *pgconn.PgError
	if err != nil && len(posts) > 1 && errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23")) {
		list = make([]accepted, len(posts))
		for i := range posts {
			if one, err := insert(ctx, w.db, posts[i:i+1]); err != nil {
				list[i].err = err
			} else {
				list[i] = one[0]
			}
		}
		err = nil
	}
	if err != nil {
		return nil, err
	}
	w.poke()
	return list, nil
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// insert appends posts in one statement, in the order of tenant and uid, so that two of them never wait for each other.
func insert(ctx context.Context, db querier, posts []Post) ([]accepted, error) {
	n := len(posts)
	var (
		tenants, tokens      = make([]uuid.UUID, n), make([]*uuid.UUID, n)
		uids, subjects       = make([]*string, n), make([]*string, n)
		types                = make([]string, n)
		scopes, previous     = make([]string, n), make([]string, n)
		occurred             = make([]*time.Time, n)
		data, fingerprints   = make([][]byte, n), make([][]byte, n)
		requestIDs, contexts = make([]*string, n), make([]*string, n)
	)
	for i := range posts {
		p := &posts[i]
		tenants[i], tokens[i], uids[i], types[i], subjects[i] = p.TenantID, p.TokenID, p.UID, p.Type, p.Subject
		scopes[i], previous[i] = strings.Join(p.Scopes, " "), strings.Join(p.PreviousScopes, " ") // a scope has no space
		occurred[i], data[i], fingerprints[i], requestIDs[i], contexts[i] = p.OccurredAt, p.Data, p.fingerprint(), p.RequestID, p.TraceParent
	}
	// The ids are made in the first part, which is read twice and so computed once: they tell which post a row is of.
	rows, err := db.Query(ctx, `
		with p as (
			select gateway.uuid_v7() as id, p.*
			from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::bytea[],
				$9::bytea[], $10::text[], $11::text[], $12::uuid[]) with ordinality
				p(tenant_id, uid, type, subject, scopes, previous_scopes, occurred_at, data, fingerprint, request_id, trace_parent, token_id, ord)
		),
		e as (
			insert into gateway.events (id, tenant_id, uid, type, subject, scopes, previous_scopes, occurred_at, data,
				fingerprint, request_id, trace_parent, token_id)
			select id, tenant_id, uid, type, subject, string_to_array(scopes, ' '), string_to_array(previous_scopes, ' '),
				coalesce(occurred_at, statement_timestamp()), data, fingerprint, request_id, trace_parent, token_id
			from p order by tenant_id, uid, ord
			on conflict (tenant_id, uid) where uid is not null do nothing
			returning id, accepted_at
		)
		select p.ord - 1, e.id, e.accepted_at, (select count(pg_notify('gateway_events', '')) from (select from e limit 1) told)
		from p left join e on e.id = p.id`,
		tenants, uids, types, subjects, scopes, previous, occurred, data, fingerprints, requestIDs, contexts, tokens)
	if err != nil {
		return nil, fmt.Errorf("accept %d events: %w", n, err)
	}
	list := make([]accepted, n)
	var i int
	var id *uuid.UUID
	var at *time.Time
	_, err = pgx.ForEachRow(rows, []any{&i, &id, &at, nil}, func() error {
		if list[i].taken = id == nil; !list[i].taken {
			list[i].receipt = Receipt{ID: *id, State: Pending, AcceptedAt: *at}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("accept %d events: %w", n, err)
	}
	return list, nil
}

// duplicates reads the events that have the uids of posts, in one statement, and compares them. The insert before has
// waited for them to commit.
func duplicates(ctx context.Context, db querier, posts []Post) ([]Outcome, error) {
	n := len(posts)
	tenants, uids, fingerprints := make([]uuid.UUID, n), make([]*string, n), make([][]byte, n)
	for i := range posts {
		tenants[i], uids[i], fingerprints[i] = posts[i].TenantID, posts[i].UID, posts[i].fingerprint()
	}
	rows, err := db.Query(ctx, `
		select p.ord - 1, e.id, e.accepted_at, e.fingerprint = p.fingerprint,
			case when e.poisoned_at is not null then 'poisoned' when e.fanned_out_at is null then 'pending' else 'fanned_out' end
		from unnest($1::uuid[], $2::text[], $3::bytea[]) with ordinality p(tenant_id, uid, fingerprint, ord)
		join gateway.events e on e.tenant_id = p.tenant_id and e.uid = p.uid`, tenants, uids, fingerprints)
	if err != nil {
		return nil, fmt.Errorf("read %d events by their uids: %w", n, err)
	}
	outcomes := make([]Outcome, n)
	found := 0
	var i int
	var same bool
	var r Receipt
	_, err = pgx.ForEachRow(rows, []any{&i, &r.ID, &r.AcceptedAt, &same, &r.State}, func() error {
		found++
		if r.Duplicate = true; same {
			outcomes[i].Receipt = r
		} else {
			outcomes[i].Err = ErrUIDConflict
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %d events by their uids: %w", n, err)
	case found != n: // deleted since, within a few milliseconds: what became of the post is not known
		return nil, fmt.Errorf("read %d events by their uids: there are %d", n, found)
	}
	return outcomes, nil
}
