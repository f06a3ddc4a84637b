package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Channel is where a commit of events tells the relays of all processes. The payload is always empty: the hint
// is that there is something, never what, and Postgres then sends it once for a whole transaction.
const Channel = "gateway_events"

// Writer appends events to the outbox.
type Writer struct {
	db   *pgxpool.Pool
	poke func()
}

// NewWriter returns a writer. poke wakes a relay in this process after each commit; it may be nil.
func NewWriter(db *pgxpool.Pool, poke func()) *Writer {
	if poke == nil {
		poke = func() {}
	}
	return &Writer{db: db, poke: poke}
}

// Accept stores one event and returns once it is committed. A post whose uid is taken returns the receipt of the
// event that has it, as a duplicate, or ErrUIDConflict if the content differs.
func (w *Writer) Accept(ctx context.Context, p Post) (Receipt, error) {
	fp := p.fingerprint()
	r := Receipt{State: Pending}
	err := w.db.QueryRow(ctx, `
		with e as (
			insert into gateway.events (tenant_id, uid, type, subject, scopes, previous_scopes, occurred_at, data,
				fingerprint, request_id, trace_parent, token_id)
			values ($1, $2, $3, $4, coalesce($5, '{}'::text[]), coalesce($6, '{}'::text[]),
				coalesce($7, statement_timestamp()), $8, $9, $10, $11, $12)
			on conflict (tenant_id, uid) where uid is not null do nothing
			returning id, accepted_at)
		select id, accepted_at, pg_notify('gateway_events', '') is null from e`,
		p.TenantID, p.UID, p.Type, p.Subject, p.Scopes, p.PreviousScopes, p.OccurredAt, p.Data,
		fp, p.RequestID, p.TraceParent, p.TokenID,
	).Scan(&r.ID, &r.AcceptedAt, nil)
	switch {
	case err == nil:
		w.poke()
		return r, nil
	case errors.Is(err, pgx.ErrNoRows):
		return w.duplicate(ctx, p, fp)
	default:
		return Receipt{}, fmt.Errorf("accept an event: %w", err)
	}
}

// duplicate reads the event that has the uid of p. The insert has waited for it to commit.
func (w *Writer) duplicate(ctx context.Context, p Post, fp []byte) (Receipt, error) {
	r := Receipt{Duplicate: true}
	var same bool
	err := w.db.QueryRow(ctx, `
		select id, accepted_at, fingerprint = $3,
			case when poisoned_at is not null then 'poisoned' when fanned_out_at is null then 'pending' else 'fanned_out' end
		from gateway.events where tenant_id = $1 and uid = $2`,
		p.TenantID, p.UID, fp,
	).Scan(&r.ID, &r.AcceptedAt, &same, &r.State)
	switch {
	case err != nil:
		return Receipt{}, fmt.Errorf("read the event with uid %q: %w", *p.UID, err)
	case !same:
		return Receipt{}, ErrUIDConflict
	}
	return r, nil
}
