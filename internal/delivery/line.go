package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// endpointsInLine lists the endpoints that have something due, skipping through the line's index from one to the
// next.
func (s *store) endpointsInLine(ctx context.Context) ([]uuid.UUID, error) {
	rows, err := s.db.Query(ctx, `
		with recursive e as (
			(select endpoint_id, tenant_id, due_at from gateway.line order by endpoint_id, due_at limit 1)
			union all
			select l.endpoint_id, l.tenant_id, l.due_at from e
			cross join lateral (
				select endpoint_id, tenant_id, due_at from gateway.line
				where endpoint_id > e.endpoint_id order by endpoint_id, due_at limit 1) l
		)
		select endpoint_id from e where due_at <= statement_timestamp()`)
	if err != nil {
		return nil, fmt.Errorf("list endpoints in line: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("list endpoints in line: %w", err)
	}
	return ids, nil
}

// conditions looks up what deliveries are up to. The gateway's own look-up for rings names no tenant: the keys
// come from jobs that the gateway made, and it answers to nobody outside.
func (s *store) conditions(ctx context.Context, keys []Key) ([]condition, error) {
	events, endpoints := make([]uuid.UUID, len(keys)), make([]uuid.UUID, len(keys))
	for i, k := range keys {
		events[i], endpoints[i] = k.EventID, k.EndpointID
	}
	rows, err := s.db.Query(ctx, `
		select k.ord - 1, d.tenant_id, d.state,
			greatest(coalesce(l.ends_at, d.next_attempt_at, statement_timestamp()) - statement_timestamp(), interval '0'),
			l.event_id is not null,
			least(st.allowance, e.max_in_flight) > st.in_flight and (st.cooldown_until is null or st.cooldown_until <= statement_timestamp()),
			coalesce(e.deleted_at is not null, true),
			case when t.state = 'suspended' then 'tenant_suspended' when e.state <> 'enabled' then e.state else '' end
		from unnest($1::uuid[], $2::uuid[]) with ordinality k(event_id, endpoint_id, ord)
		join gateway.deliveries d on d.event_id = k.event_id and d.endpoint_id = k.endpoint_id
		left join gateway.leases l on l.event_id = d.event_id and l.endpoint_id = d.endpoint_id and l.tenant_id = d.tenant_id
		left join gateway.endpoints e on e.id = d.endpoint_id and e.tenant_id = d.tenant_id
		left join gateway.endpoint_state st on st.endpoint_id = d.endpoint_id and st.tenant_id = d.tenant_id
		left join gateway.tenants t on t.id = d.tenant_id`, events, endpoints)
	if err != nil {
		return nil, fmt.Errorf("look up %d deliveries: %w", len(keys), err)
	}
	defer rows.Close()
	list := make([]condition, len(keys))
	for rows.Next() {
		var i int
		var room *bool
		c := condition{known: true}
		var stopped *string
		if err := rows.Scan(&i, &c.tenantID, &c.state, &c.wait, &c.leased, &room, &c.deleted, &stopped); err != nil {
			return nil, fmt.Errorf("look up %d deliveries: %w", len(keys), err)
		}
		c.room = room != nil && *room
		if stopped != nil {
			c.stopped = *stopped
		}
		list[i] = c
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look up %d deliveries: %w", len(keys), err)
	}
	return list, nil
}

// setAside takes a delivery out of the line whose endpoint takes nothing: it ends cancelled where the endpoint
// is deleted, and is held where the endpoint is paused or disabled, or its tenant suspended. It changes nothing
// when the endpoint has come back meanwhile, or somebody else has the delivery.
func (s *store) setAside(ctx context.Context, key Key, tenantID uuid.UUID) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lock, []uuid.UUID{key.EndpointID}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			with stop as (
				select case when e.deleted_at is not null then 'cancelled' else 'held' end as state,
					case when e.deleted_at is not null then 'endpoint_deleted' when t.state = 'suspended' then 'tenant_suspended' else e.state end as reason
				from gateway.endpoints e
				join gateway.tenants t on t.id = e.tenant_id
				where e.id = $2 and e.tenant_id = $3 and (e.deleted_at is not null or e.state <> 'enabled' or t.state = 'suspended')
			),
			moved as (
				update gateway.deliveries d
				set state = stop.state, reason = stop.reason, next_attempt_at = null, job_id = null,
					ended_at = case when stop.state = 'cancelled' then statement_timestamp() end
				from stop
				where d.event_id = $1 and d.endpoint_id = $2 and d.tenant_id = $3 and d.state in ('pending', 'retrying')
				  and not exists (select 1 from gateway.leases l where l.event_id = $1 and l.endpoint_id = $2 and l.tenant_id = $3)
				returning 1
			)
			delete from gateway.line using moved where endpoint_id = $2 and event_id = $1 and tenant_id = $3`,
			key.EventID, key.EndpointID, tenantID)
		return err
	})
	if err != nil {
		return fmt.Errorf("set a delivery aside: %w", err)
	}
	return nil
}

// giveBack frees the leases of this process that are not among keep, and puts their deliveries back in line: a
// batch granted them and nobody heard of it, so nothing was sent. It returns their endpoints.
func (s *store) giveBack(ctx context.Context, keep []Key) ([]uuid.UUID, error) {
	events, endpoints := make([]uuid.UUID, len(keep)), make([]uuid.UUID, len(keep))
	for i, k := range keep {
		events[i], endpoints[i] = k.EventID, k.EndpointID
	}
	var ids []uuid.UUID
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			select distinct endpoint_id from gateway.leases l
			where process_id = $1 and not exists (
				select 1 from unnest($2::uuid[], $3::uuid[]) k(event_id, endpoint_id)
				where k.event_id = l.event_id and k.endpoint_id = l.endpoint_id)`, s.process, events, endpoints)
		if err != nil {
			return err
		}
		if ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil || len(ids) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, lock, ids); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			with back as (
				delete from gateway.leases l
				where process_id = $1 and endpoint_id = any ($4) and not exists (
					select 1 from unnest($2::uuid[], $3::uuid[]) k(event_id, endpoint_id)
					where k.event_id = l.event_id and k.endpoint_id = l.endpoint_id)
				returning event_id, endpoint_id, tenant_id
			),
			lined as (
				insert into gateway.line (endpoint_id, due_at, event_id, tenant_id)
				select d.endpoint_id, d.next_attempt_at, d.event_id, d.tenant_id
				from back b
				join gateway.deliveries d on d.event_id = b.event_id and d.endpoint_id = b.endpoint_id and d.tenant_id = b.tenant_id
				where d.state in ('pending', 'retrying')
			)
			update gateway.endpoint_state s
			set in_flight = s.in_flight - b.n
			from (select endpoint_id, tenant_id, count(*) as n from back group by endpoint_id, tenant_id) b
			where s.endpoint_id = b.endpoint_id and s.tenant_id = b.tenant_id`, s.process, events, endpoints, ids)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("give back leases: %w", err)
	}
	return ids, nil
}

// late records a result whose lease was taken over meanwhile: it replaces the class interrupted in the attempt's
// row, and a 2xx still ends the delivery. Anything else it says comes too late.
func (s *store) late(ctx context.Context, r *result) error {
	g, v := r.grant, r.verdict
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lock, []uuid.UUID{g.key.EndpointID}); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			update gateway.attempts
			set outcome = $5, class = $6, reason = $7, sent = $8, status = $9, ended_at = started_at + $10::interval,
				response_body = $11, response_truncated = $12, total_us = $13
			where event_id = $1 and endpoint_id = $2 and tenant_id = $3 and number = $4 and class = 'interrupted' and process_id = $14`,
			g.key.EventID, g.key.EndpointID, g.tenantID, g.number, v.Outcome, v.Class, text(v.Reason), r.sent,
			status(r.http.Status), r.elapsed, r.http.Body, r.http.Truncated, micros(r.http.Phases.Total), s.process)
		if err != nil || tag.RowsAffected() == 0 || v.State != Succeeded {
			return err
		}
		_, err = tx.Exec(ctx, `
			with ended as (
				update gateway.deliveries
				set state = 'succeeded', reason = null, next_attempt_at = null, last_class = $4, last_status = $5, ended_at = statement_timestamp()
				where event_id = $1 and endpoint_id = $2 and tenant_id = $3 and state in ('pending', 'retrying')
				returning 1
			)
			delete from gateway.line using ended where endpoint_id = $2 and event_id = $1 and tenant_id = $3`,
			g.key.EventID, g.key.EndpointID, g.tenantID, v.Class, status(r.http.Status))
		return err
	})
	if err != nil {
		return fmt.Errorf("record a late result: %w", err)
	}
	return nil
}

func status(code int) *int16 {
	if code == 0 {
		return nil
	}
	return ptr(int16(code))
}

// late records a result that lost its lease, and says so: that is rare, and a sign of a process that stood still.
func (d *Dispatcher) late(r *result) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d.log.Warn("a lease was taken over before its result came", "event_id", r.grant.key.EventID,
		"endpoint_id", r.grant.key.EndpointID, "number", r.grant.number, "outcome", r.verdict.Outcome)
	if err := d.store.late(ctx, r); err != nil {
		d.log.Error("record a late result", "error", err)
	}
}
