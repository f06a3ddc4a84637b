package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// FannedChannel carries the ids of the events that a pass has handed over, a space between them.
const FannedChannel = "gateway_events_fanned"

// fannedPerNotice is how many ids one notification holds: Postgres allows fewer than 8,000 bytes, an id and its
// space are 37.
const fannedPerNotice = 200

// passed is what a pass did.
type passed struct {
	events     int
	deliveries int
	more       bool // there may be more to claim right away
}

// pass hands over one batch in one transaction. Its error is a *passError where events were claimed.
func (r *Relay) pass(ctx context.Context) (passed, error) {
	return r.handOver(ctx, r.claimTx)
}

// handOver claims, routes and marks in one transaction.
func (r *Relay) handOver(ctx context.Context, claim func(context.Context, pgx.Tx) ([]Claimed, error)) (p passed, err error) {
	tx, err := r.db.Begin(ctx)
	if err != nil {
		return p, fmt.Errorf("begin a pass: %w", err)
	}
	defer func() {
		// The connection's own rollback must not be lost with the caller's context.
		if rerr := tx.Rollback(context.WithoutCancel(ctx)); rerr != nil && !errors.Is(rerr, pgx.ErrTxClosed) && err == nil {
			err = fmt.Errorf("roll back a pass: %w", rerr)
		}
	}()
	events, err := claim(ctx, tx)
	if err != nil {
		return p, fmt.Errorf("claim events: %w", err)
	}
	if len(events) == 0 {
		return p, nil
	}
	routes, n, size, err := r.routeTx(ctx, tx, events)
	if err != nil {
		return p, &passError{events: events, err: err}
	}
	if err := r.markTx(ctx, tx, events[:n], routes); err != nil {
		return p, &passError{events: events, err: fmt.Errorf("mark %d events: %w", n, err)}
	}
	if err := tx.Commit(ctx); err != nil {
		return p, &passError{events: events, err: fmt.Errorf("commit a pass: %w", err)}
	}
	for _, route := range routes {
		route.Committed()
	}
	return passed{events: n, deliveries: size, more: n < len(events) || len(events) == r.cfg.BatchEvents}, nil
}

// routeTx lets the routers decide and write, for as many of the events as fit into the pass. A router's panic is an
// error like any other: it must not end the process for one event.
func (r *Relay) routeTx(ctx context.Context, tx pgx.Tx, events []Claimed) (routes []Route, n, size int, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	for _, router := range r.routers {
		route, err := router.RouteTx(ctx, tx, events)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("route %d events: %w", len(events), err)
		}
		routes = append(routes, route)
	}
	n, size = cut(len(events), r.cfg.BatchDeliveries, routes)
	for _, route := range routes {
		if err := route.WriteTx(ctx, tx, n); err != nil {
			return nil, 0, 0, fmt.Errorf("hand over %d events: %w", n, err)
		}
	}
	return routes, n, size, nil
}

// cut says how many of the events a pass takes, and the rows they make: as many as fit into the bound, but
// always the first one whole.
func cut(events, bound int, routes []Route) (n, size int) {
	for n = 0; n < events; n++ {
		more := 0
		for _, route := range routes {
			more += route.Size(n)
		}
		if n > 0 && size+more > bound {
			break
		}
		size += more
	}
	return n, size
}

// claimTx locks the next events: at most BatchEvents, in the order of seq within a tenant, the same share to
// each tenant with a backlog, beginning with a random one.
//
// The tenants are found by skipping through the partial index from one to the next, so a backlog of 100,000
// events of one tenant costs one step. A locked row was claimed by another pass; skipping it needs no wait.
func (r *Relay) claimTx(ctx context.Context, tx pgx.Tx) ([]Claimed, error) {
	rows, err := tx.Query(ctx, `
		with recursive
		above as (
			(select tenant_id from gateway.events
			 where fanned_out_at is null and poisoned_at is null and tenant_id >= $2
			 order by tenant_id limit 1)
			union all
			select (select e.tenant_id from gateway.events e
			        where e.fanned_out_at is null and e.poisoned_at is null and e.tenant_id > above.tenant_id
			        order by e.tenant_id limit 1)
			from above where above.tenant_id is not null
		),
		below as (
			(select tenant_id from gateway.events
			 where fanned_out_at is null and poisoned_at is null and tenant_id < $2
			 order by tenant_id limit 1)
			union all
			select (select e.tenant_id from gateway.events e
			        where e.fanned_out_at is null and e.poisoned_at is null
			          and e.tenant_id > below.tenant_id and e.tenant_id < $2
			        order by e.tenant_id limit 1)
			from below where below.tenant_id is not null
		),
		backlog as (
			select tenant_id, count(*) over () as tenants
			from (
				(select tenant_id from above where tenant_id is not null limit $1)
				union all
				(select tenant_id from below where tenant_id is not null limit $1)
				limit $1) listed
		)
		select e.seq, e.id, e.tenant_id, e.type, e.subject, e.scopes, e.previous_scopes, e.accepted_at
		from backlog
		cross join lateral (
			select seq, id, tenant_id, type, subject, scopes, previous_scopes, accepted_at
			from gateway.events
			where tenant_id = backlog.tenant_id and fanned_out_at is null and poisoned_at is null
			  and next_relay_at <= statement_timestamp()
			order by seq
			limit ceil($1::numeric / backlog.tenants)
			for update skip locked) e
		limit $1`, r.cfg.BatchEvents, uuid.New())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanClaimed)
}

func scanClaimed(row pgx.CollectableRow) (e Claimed, err error) {
	err = row.Scan(&e.Seq, &e.ID, &e.TenantID, &e.Type, &e.Subject, &e.Scopes, &e.PreviousScopes, &e.AcceptedAt)
	return e, err
}

// markTx marks the events as handed over and tells who waits for them; Postgres sends that at the commit.
func (r *Relay) markTx(ctx context.Context, tx pgx.Tx, events []Claimed, routes []Route) error {
	ids := make([]uuid.UUID, len(events))
	tenants := make([]uuid.UUID, len(events))
	fanouts := make([]string, len(events))
	for i, e := range events {
		var f Fanout
		for _, route := range routes {
			route.Describe(i, &f)
		}
		text, err := json.Marshal(f)
		if err != nil {
			return fmt.Errorf("describe event %s: %w", e.ID, err)
		}
		ids[i], tenants[i], fanouts[i] = e.ID, e.TenantID, string(text)
	}
	var b pgx.Batch
	b.Queue(`
		update gateway.events e
		set fanned_out_at = clock_timestamp(), fanout = f.fanout::jsonb, relay_error = null
		from unnest($1::uuid[], $2::uuid[], $3::text[]) f(id, tenant_id, fanout)
		where e.id = f.id and e.tenant_id = f.tenant_id and e.fanned_out_at is null`, ids, tenants, fanouts,
	)
	for len(ids) > 0 {
		n := min(len(ids), fannedPerNotice)
		b.Queue(`select pg_notify('gateway_events_fanned', $1)`, join(ids[:n]))
		ids = ids[n:]
	}
	return tx.SendBatch(ctx, &b).Close()
}

func join(ids []uuid.UUID) string {
	var sb strings.Builder
	for i, id := range ids {
		if i > 0 {
			sb.WriteByte(' ')
		}
		sb.WriteString(id.String())
	}
	return sb.String()
}
