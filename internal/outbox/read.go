package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Reader reads events. Every read names its tenant.
type Reader struct{ db *pgxpool.Pool }

// NewReader returns a reader.
func NewReader(db *pgxpool.Pool) *Reader { return &Reader{db: db} }

// ListQuery says which events a page holds: the newest first, below Before.
type ListQuery struct {
	Limit   int       // 1 to 200
	Before  uuid.UUID // the last id of the page before; nil for the first page
	Since   *time.Time
	Until   *time.Time
	Types   []string // regular expressions, any of which the type must match; nil: all
	States  []State
	Subject *string
	UID     *string
	// ScopePatterns are regular expressions of the scopes that the reader may see; nil: all events.
	ScopePatterns []string
}

// columns of an event, without its data.
const stateOf = `case when poisoned_at is not null then 'poisoned' when fanned_out_at is null then 'pending' else 'fanned_out' end`

// Get reads one event with its data, or ErrNotFound. Data is nil where it was erased.
func (r *Reader) Get(ctx context.Context, tenantID, id uuid.UUID) (Event, error) {
	rows, err := r.db.Query(ctx, `
		select id, tenant_id, uid, type, subject, scopes, previous_scopes, occurred_at, accepted_at, `+stateOf+`,
			fanned_out_at, poisoned_at, fanout, relay_failures, relay_error, request_id, data
		from gateway.events where tenant_id = $1 and id = $2`, tenantID, id)
	if err != nil {
		return Event{}, fmt.Errorf("read event %s: %w", id, err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEvent)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Event{}, ErrNotFound
	case err != nil:
		return Event{}, fmt.Errorf("read event %s: %w", id, err)
	}
	return e, nil
}

// List reads a page, without data, and says whether there is more.
func (r *Reader) List(ctx context.Context, tenantID uuid.UUID, q ListQuery) ([]Event, bool, error) {
	before := q.Before
	if before == uuid.Nil {
		before = uuid.Max
	}
	var since, until *time.Time = q.Since, q.Until
	rows, err := r.db.Query(ctx, `
		select id, tenant_id, uid, type, subject, scopes, previous_scopes, occurred_at, accepted_at, `+stateOf+`,
			fanned_out_at, poisoned_at, fanout, relay_failures, relay_error, request_id, null::bytea
		from gateway.events
		where tenant_id = $1 and id < $2
		  and ($3::timestamptz is null or id >= gateway.uuid_floor($3))
		  and ($4::timestamptz is null or id < gateway.uuid_floor($4))
		  and ($5::text[] is null or type ~ any ($5))
		  and ($6::text[] is null or `+stateOf+` = any ($6))
		  and ($7::text is null or subject = $7)
		  and ($8::text is null or uid = $8)
		  and ($9::text[] is null or exists (select 1 from unnest(scopes) s where s ~ any ($9)))
		order by id desc
		limit $10`,
		tenantID, before, since, until, q.Types, states(q.States), q.Subject, q.UID, q.ScopePatterns, q.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list events: %w", err)
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, false, fmt.Errorf("list events: %w", err)
	}
	if len(events) > q.Limit {
		return events[:q.Limit], true, nil
	}
	return events, false, nil
}

func states(list []State) []string {
	if len(list) == 0 {
		return nil
	}
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return texts
}

func scanEvent(row pgx.CollectableRow) (Event, error) {
	var e Event
	var fanout []byte
	err := row.Scan(&e.ID, &e.TenantID, &e.UID, &e.Type, &e.Subject, &e.Scopes, &e.PreviousScopes, &e.OccurredAt,
		&e.AcceptedAt, &e.State, &e.FannedOutAt, &e.PoisonedAt, &fanout, &e.RelayFailures, &e.RelayError, &e.RequestID, &e.Data)
	if err != nil {
		return Event{}, err
	}
	if fanout != nil {
		e.Fanout = new(Fanout)
		if err := json.Unmarshal(fanout, e.Fanout); err != nil {
			return Event{}, fmt.Errorf("the fan-out of event %s: %w", e.ID, err)
		}
	}
	return e, nil
}
