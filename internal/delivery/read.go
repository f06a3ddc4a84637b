package delivery

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

// Reader reads deliveries and attempts. Every read names its tenant.
type Reader struct{ db *pgxpool.Pool }

// NewReader returns a reader.
func NewReader(db *pgxpool.Pool) *Reader { return &Reader{db: db} }

// ListQuery says which deliveries a page holds: those of the newest events first, below Before.
type ListQuery struct {
	Limit      int  // 1 to 200
	Before     *Key // the last of the page before
	Since      *time.Time
	Until      *time.Time // both of the event's acceptance
	States     []State
	EndpointID *uuid.UUID
	EventID    *uuid.UUID
	Types      []string // regular expressions, any of which the type must match; nil: all
	Subject    *string
	Classes    []Class // of the last attempt
	StatusFrom *int    // of the last attempt's answer, inclusive
	StatusTo   *int
	// ScopePatterns are regular expressions of the scopes that the reader may see; nil: all. A delivery whose
	// event is gone is then not shown.
	ScopePatterns []string
}

const deliveryColumns = `d.id, d.event_id, d.endpoint_id, d.tenant_id, d.type, d.subject, d.accepted_at, d.state, d.reason, d.trigger,
	d.attempts, d.tries, d.next_attempt_at,
	d.state in ('pending', 'retrying') and d.next_attempt_at <= statement_timestamp()
		and not exists (select 1 from gateway.leases l where l.event_id = d.event_id and l.endpoint_id = d.endpoint_id),
	d.last_class, d.last_status, d.last_attempt_at, d.created_at, d.ended_at`

// Get reads one delivery, or ErrNotFound. Its id has its event's millisecond: that bounds the search to a few rows
// of one partition.
func (r *Reader) Get(ctx context.Context, tenantID, id uuid.UUID) (Delivery, error) {
	from, to := sameMillisecond(id)
	rows, err := r.db.Query(ctx, `
		select `+deliveryColumns+`
		from gateway.deliveries d
		where d.tenant_id = $1 and d.event_id between $2 and $3 and d.id = $4`, tenantID, from, to, id)
	if err != nil {
		return Delivery{}, fmt.Errorf("read delivery %s: %w", id, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDelivery)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Delivery{}, ErrNotFound
	case err != nil:
		return Delivery{}, fmt.Errorf("read delivery %s: %w", id, err)
	}
	return d, nil
}

// List reads a page and says whether there is more.
func (r *Reader) List(ctx context.Context, tenantID uuid.UUID, q ListQuery) ([]Delivery, bool, error) {
	before := Key{uuid.Max, uuid.Max}
	if q.Before != nil {
		before = *q.Before
	}
	rows, err := r.db.Query(ctx, `
		select `+deliveryColumns+`
		from gateway.deliveries d
		where d.tenant_id = $1 and d.event_id <= $2 and (d.event_id, d.endpoint_id) < ($2, $3)
		  and ($4::timestamptz is null or d.event_id >= gateway.uuid_floor($4))
		  and ($5::timestamptz is null or d.event_id < gateway.uuid_floor($5))
		  and ($6::text[] is null or d.state = any ($6))
		  and ($7::uuid is null or d.endpoint_id = $7)
		  and ($8::uuid is null or d.event_id = $8)
		  and ($9::text[] is null or d.type ~ any ($9))
		  and ($10::text is null or d.subject = $10)
		  and ($11::text[] is null or d.last_class = any ($11))
		  and ($12::int is null or d.last_status >= $12)
		  and ($13::int is null or d.last_status <= $13)
		  and ($14::text[] is null or exists (
			select 1 from gateway.events v, unnest(v.scopes) s
			where v.id = d.event_id and v.tenant_id = d.tenant_id and s ~ any ($14)))
		order by d.event_id desc, d.endpoint_id desc
		limit $15`,
		tenantID, before.EventID, before.EndpointID, q.Since, q.Until, texts(q.States), q.EndpointID, q.EventID, q.Types,
		q.Subject, texts(q.Classes), q.StatusFrom, q.StatusTo, q.ScopePatterns, q.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list deliveries: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanDelivery)
	if err != nil {
		return nil, false, fmt.Errorf("list deliveries: %w", err)
	}
	if len(list) > q.Limit {
		return list[:q.Limit], true, nil
	}
	return list, false, nil
}

func texts[T ~string](list []T) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

func scanDelivery(row pgx.CollectableRow) (d Delivery, err error) {
	err = row.Scan(&d.ID, &d.EventID, &d.EndpointID, &d.TenantID, &d.Type, &d.Subject, &d.AcceptedAt, &d.State, &d.Reason,
		&d.Trigger, &d.Attempts, &d.Tries, &d.NextAttemptAt, &d.InLine, &d.LastClass, &d.LastStatus, &d.LastAttemptAt,
		&d.CreatedAt, &d.EndedAt)
	return d, err
}

const attemptColumns = `a.id, d.id, a.event_id, a.endpoint_id, a.number, a.try, a.trigger, a.outcome, a.class, a.reason, a.sent,
	a.status, a.started_at, a.ended_at, a.dns_us, a.connect_us, a.tls_us, a.first_byte_us, a.total_us, a.reused, a.protocol,
	a.response_headers, a.response_body, a.response_truncated, a.next_attempt_at`

// Attempts reads a page of a delivery's attempts, the last one first, below the number before (0: from the
// last), and says whether there is more; or ErrNotFound.
func (r *Reader) Attempts(ctx context.Context, tenantID, deliveryID uuid.UUID, limit, before int) ([]Attempt, bool, error) {
	d, err := r.Get(ctx, tenantID, deliveryID)
	if err != nil {
		return nil, false, err
	}
	rows, err := r.db.Query(ctx, `
		select `+attemptColumns+`
		from gateway.attempts a
		join gateway.deliveries d on d.event_id = a.event_id and d.endpoint_id = a.endpoint_id and d.tenant_id = a.tenant_id
		where a.tenant_id = $1 and a.event_id = $2 and a.endpoint_id = $3 and ($4 = 0 or a.number < $4)
		order by a.number desc
		limit $5`, tenantID, d.EventID, d.EndpointID, before, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list attempts: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanAttempt)
	if err != nil {
		return nil, false, fmt.Errorf("list attempts: %w", err)
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}

// Attempt reads one attempt, with the request as it was sent while the event lives; or ErrNotFound.
func (r *Reader) Attempt(ctx context.Context, tenantID, id uuid.UUID) (Attempt, error) {
	from, to := sameMillisecond(id)
	rows, err := r.db.Query(ctx, `
		select `+attemptColumns+`
		from gateway.attempts a
		join gateway.deliveries d on d.event_id = a.event_id and d.endpoint_id = a.endpoint_id and d.tenant_id = a.tenant_id
		where a.tenant_id = $1 and a.event_id between $2 and $3 and a.id = $4`, tenantID, from, to, id)
	if err != nil {
		return Attempt{}, fmt.Errorf("read attempt %s: %w", id, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, scanAttempt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Attempt{}, ErrNotFound
	case err != nil:
		return Attempt{}, fmt.Errorf("read attempt %s: %w", id, err)
	}
	var m message
	err = r.db.QueryRow(ctx, `
		select id, uid, type, subject, occurred_at, data from gateway.events where tenant_id = $1 and id = $2 and data is not null`,
		tenantID, a.EventID).Scan(&m.ID, &m.UID, &m.Type, &m.Subject, &m.OccurredAt, &m.Data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return a, nil
	case err != nil:
		return Attempt{}, fmt.Errorf("read the event of attempt %s: %w", id, err)
	}
	a.Request = m.request(a.Number)
	return a, nil
}

func scanAttempt(row pgx.CollectableRow) (a Attempt, err error) {
	var dns, connect, tls, first, total *int32
	var head []byte
	err = row.Scan(&a.ID, &a.DeliveryID, &a.EventID, &a.EndpointID, &a.Number, &a.Try, &a.Trigger, &a.Outcome, &a.Class,
		&a.Reason, &a.Sent, &a.Status, &a.StartedAt, &a.EndedAt, &dns, &connect, &tls, &first, &total, &a.Phases.Reused,
		&a.Phases.Protocol, &head, &a.ResponseBody, &a.ResponseTruncated, &a.NextAttemptAt)
	if err != nil {
		return Attempt{}, err
	}
	a.Phases.DNS, a.Phases.Connect, a.Phases.TLS = fromMicros(dns), fromMicros(connect), fromMicros(tls)
	a.Phases.FirstByte, a.Phases.Total = fromMicros(first), fromMicros(total)
	if head != nil {
		if err := json.Unmarshal(head, &a.ResponseHeaders); err != nil {
			return Attempt{}, fmt.Errorf("the answer's headers of attempt %s: %w", a.ID, err)
		}
	}
	return a, nil
}

func fromMicros(us *int32) *time.Duration {
	if us == nil {
		return nil
	}
	return ptr(time.Duration(*us) * time.Microsecond)
}
