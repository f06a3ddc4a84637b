package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	defaultPage = 50
	maxPage     = 200
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Get reads an endpoint of a tenant, or ErrNotFound.
func (st *Store) Get(ctx context.Context, tenantID uuid.UUID, ref Ref) (Endpoint, error) {
	id, err := resolve(ctx, st.db, tenantID, ref)
	if err != nil {
		return Endpoint{}, err
	}
	return one(ctx, st.db, tenantID, id)
}

// List reads a page of a tenant's endpoints, newest first, and whether there are more.
func (st *Store) List(ctx context.Context, tenantID uuid.UUID, q ListQuery) (page []Endpoint, more bool, err error) {
	if q.Limit < 1 || q.Limit > maxPage {
		q.Limit = defaultPage
	}
	ids, err := st.find(ctx, tenantID, q)
	if err != nil {
		return nil, false, fmt.Errorf("list endpoints: %w", err)
	}
	more = len(ids) > q.Limit
	page, err = read(ctx, st.db, tenantID, ids[:min(q.Limit, len(ids))])
	if err != nil {
		return nil, false, fmt.Errorf("list endpoints: %w", err)
	}
	return page, more, nil
}

// find returns the ids of a page and, if there is one, the next. What globs admit is not for the database to say, so
// with a type it reads all of a tenant's endpoints that fit otherwise, of which there are at most about a thousand.
func (st *Store) find(ctx context.Context, tenantID uuid.UUID, q ListQuery) ([]uuid.UUID, error) {
	limit := &q.Limit
	if q.Type != "" {
		limit = nil
	}
	rows, _ := st.db.Query(ctx, `
		select e.id, e.types
		from gateway.endpoints e left join gateway.endpoint_state s on s.endpoint_id = e.id and s.tenant_id = e.tenant_id
		where e.tenant_id = $1 and e.deleted_at is null
			and ($2::uuid is null or e.id < $2)
			and (cardinality($3::text[]) = 0 or e.state = any($3))
			and ($4 = '' or e.uid = $4)
			and ($5 = '' or strpos(lower(e.url), lower($5)) > 0)
			and case $6::text
				when '' then true
				when 'failing' then s.failing_since is not null
				when 'healthy' then s.failing_since is null and s.last_success_at is not null
				when 'unverified' then s.failing_since is null and s.last_success_at is null
				else false end
		order by e.id desc
		limit $7::int + 1`,
		tenantID, orNull(q.Before), texts(q.States), q.UID, q.URL, string(q.Health), limit)
	type found struct {
		ID    uuid.UUID
		Types []string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[found])
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, 0, q.Limit+1)
	for _, e := range all {
		if q.Type != "" {
			if g, err := CompileTypes(e.Types); err != nil || !g.Match(q.Type) {
				continue
			}
		}
		if ids = append(ids, e.ID); len(ids) > q.Limit {
			break
		}
	}
	return ids, nil
}

// resolve returns the id of the endpoint that a reference names. An id is not looked for: what uses it will.
func resolve(ctx context.Context, db querier, tenantID uuid.UUID, ref Ref) (uuid.UUID, error) {
	if ref.UID == "" {
		return ref.ID, nil
	}
	var id uuid.UUID
	err := db.QueryRow(ctx, `
		select id from gateway.endpoints
		where tenant_id = $1 and uid = $2 and deleted_at is null`, tenantID, ref.UID).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, ErrNotFound
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("find an endpoint by its uid: %w", err)
	}
	return id, nil
}

// readTx reads an endpoint as the transaction sees it.
func readTx(ctx context.Context, tx pgx.Tx, tenantID, id uuid.UUID) (Endpoint, error) {
	return one(ctx, tx, tenantID, id)
}

func one(ctx context.Context, db querier, tenantID, id uuid.UUID) (Endpoint, error) {
	found, err := read(ctx, db, tenantID, []uuid.UUID{id})
	if err != nil {
		return Endpoint{}, err
	}
	if len(found) == 0 {
		return Endpoint{}, ErrNotFound
	}
	return found[0], nil
}

// read reads some endpoints of a tenant, newest first. Those that it has not are left out.
func read(ctx context.Context, db querier, tenantID uuid.UUID, ids []uuid.UUID) ([]Endpoint, error) {
	rows, _ := db.Query(ctx, `
		select e.id, e.tenant_id, e.uid, e.url, e.description, e.types, e.scopes, e.header_names, e.metadata, e.timeout_ms,
			e.max_in_flight, e.rate_per_second, e.schedule, e.traceparent, e.state, e.disabled_reason, e.state_at,
			e.version, e.created_at, e.updated_at,
			s.failing_since, s.last_failure_at, s.last_success_at, s.last_class, coalesce(s.failures, 0), s.cooldown_until, s.held_expired_at
		from gateway.endpoints e left join gateway.endpoint_state s on s.endpoint_id = e.id and s.tenant_id = e.tenant_id
		where e.tenant_id = $1 and e.id = any($2) and e.deleted_at is null
		order by e.id desc`, tenantID, ids)
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	secrets, err := readSecrets(ctx, db, tenantID, ids)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Secrets = secrets[found[i].ID]
	}
	return found, nil
}

func scan(row pgx.CollectableRow) (Endpoint, error) {
	var e Endpoint
	var timeout int64
	var schedule []int32
	h := &e.Health
	err := row.Scan(&e.ID, &e.TenantID, &e.UID, &e.URL, &e.Description, &e.Types, &e.Scopes, &e.HeaderNames, &e.Metadata, &timeout,
		&e.MaxInFlight, &e.RatePerSecond, &schedule, &e.TraceParent, &e.State, &e.DisabledReason, &e.StateAt,
		&e.Version, &e.CreatedAt, &e.UpdatedAt,
		&h.FailingSince, &h.LastFailureAt, &h.LastSuccessAt, &h.LastClass, &h.Failures, &h.CooldownUntil, &h.HeldExpiredAt)
	e.Timeout, e.Schedule = time.Duration(timeout)*time.Millisecond, durations(schedule)
	h.Status = status(h.FailingSince, h.LastSuccessAt)
	return e, err
}

func readSecrets(ctx context.Context, db querier, tenantID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID][]SecretInfo, error) {
	rows, _ := db.Query(ctx, `
		select endpoint_id, fingerprint, created_at, retires_at
		from gateway.endpoint_secrets
		where tenant_id = $1 and endpoint_id = any($2) and (retires_at is null or retires_at > now())
		order by endpoint_id, retires_at is null desc, id desc`, tenantID, ids)
	secrets := make(map[uuid.UUID][]SecretInfo, len(ids))
	var id uuid.UUID
	var info SecretInfo
	_, err := pgx.ForEachRow(rows, []any{&id, &info.Fingerprint, &info.CreatedAt, &info.RetiresAt}, func() error {
		secrets[id] = append(secrets[id], info)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the secrets of endpoints: %w", err)
	}
	return secrets, nil
}

// orNull turns the nil id into a null.
func orNull(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
