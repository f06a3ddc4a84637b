package tenant

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Tenants reads and writes tenants.
type Tenants struct{ db *pgxpool.Pool }

// NewTenants returns the store of tenants.
func NewTenants(db *pgxpool.Pool) *Tenants { return &Tenants{db} }

// Create makes a tenant. Errors: *Invalid, ErrUIDTaken.
func (s *Tenants) Create(ctx context.Context, spec Spec) (t Tenant, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		t, err = s.CreateTx(ctx, tx, spec)
		return err
	})
	return t, err
}

// CreateTx is Create within the caller's transaction.
func (s *Tenants) CreateTx(ctx context.Context, tx pgx.Tx, spec Spec) (Tenant, error) {
	if err := spec.validate(); err != nil {
		return Tenant{}, err
	}
	rows, _ := tx.Query(ctx, `
		insert into gateway.tenants (uid, name, metadata) values ($1, $2, coalesce($3, '{}'::jsonb))
		on conflict (uid) do nothing
		returning id, uid, name, state, metadata, version, created_at, updated_at, suspended_at`,
		spec.UID, spec.Name, spec.Metadata)
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Tenant])
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, ErrUIDTaken
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("create a tenant: %w", err)
	}
	return t, nil
}

// Get reads a tenant, or ErrNotFound.
func (s *Tenants) Get(ctx context.Context, id uuid.UUID) (Tenant, error) {
	rows, _ := s.db.Query(ctx, `
		select id, uid, name, state, metadata, version, created_at, updated_at, suspended_at
		from gateway.tenants where id = $1 and deleted_at is null`, id)
	return one(rows)
}

// GetByUID reads the tenant that the operator calls uid, or ErrNotFound.
func (s *Tenants) GetByUID(ctx context.Context, uid string) (t Tenant, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		t, err = s.GetByUIDTx(ctx, tx, uid)
		return err
	})
	return t, err
}

// GetByUIDTx is GetByUID within the caller's transaction.
func (s *Tenants) GetByUIDTx(ctx context.Context, tx pgx.Tx, uid string) (Tenant, error) {
	rows, _ := tx.Query(ctx, `
		select id, uid, name, state, metadata, version, created_at, updated_at, suspended_at
		from gateway.tenants where uid = $1 and deleted_at is null`, uid)
	return one(rows)
}

func one(rows pgx.Rows) (Tenant, error) {
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Tenant])
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, ErrNotFound
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("read a tenant: %w", err)
	}
	return t, nil
}

// List reads a page of tenants, newest first, and whether there are more.
func (s *Tenants) List(ctx context.Context, q ListQuery) (page []Tenant, more bool, err error) {
	limit := pageSize(q.Limit)
	rows, _ := s.db.Query(ctx, `
		select id, uid, name, state, metadata, version, created_at, updated_at, suspended_at
		from gateway.tenants
		where deleted_at is null and ($1::uuid is null or id < $1) and (cardinality($2::text[]) = 0 or state = any($2))
		order by id desc
		limit $3`, orNull(q.Before), texts(q.States), limit+1)
	page, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Tenant])
	if err != nil {
		return nil, false, fmt.Errorf("list tenants: %w", err)
	}
	return page[:min(limit, len(page))], len(page) > limit, nil
}

// Update changes a tenant, if it still has the version that the caller names (nil: any). Suspending and resuming one
// raises its config_version: the next pass of every relay sees it. Errors: *Invalid, ErrNotFound, *VersionError,
// ErrUIDTaken.
func (s *Tenants) Update(ctx context.Context, id uuid.UUID, patch Patch, ifVersion *int64) (Tenant, error) {
	var t Tenant
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var err error
		t, err = updateTx(ctx, tx, id, patch, ifVersion)
		return err
	})
	if err != nil {
		return Tenant{}, fmt.Errorf("change a tenant: %w", err)
	}
	return t, nil
}

func updateTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, patch Patch, ifVersion *int64) (Tenant, error) {
	rows, _ := tx.Query(ctx, `
		select id, uid, name, state, metadata, version, created_at, updated_at, suspended_at
		from gateway.tenants where id = $1 and deleted_at is null
		for no key update`, id)
	t, err := one(rows)
	if err != nil {
		return Tenant{}, err
	}
	if ifVersion != nil && *ifVersion != t.Version {
		return Tenant{}, &VersionError{Current: t.Version}
	}
	was := t.State
	if err := patch.apply(&t); err != nil {
		return Tenant{}, err
	}
	rows, _ = tx.Query(ctx, `
		update gateway.tenants
		set uid = $2, name = $3, metadata = $4, version = version + 1, updated_at = now(), state = $5::text,
			config_version = config_version + case when state = $5 then 0 else 1 end,
			suspended_at = case when $5 = 'active' then null when state = $5 then suspended_at else now() end
		where id = $1
		returning id, uid, name, state, metadata, version, created_at, updated_at, suspended_at`,
		t.ID, t.UID, t.Name, t.Metadata, t.State)
	t, err = one(rows)
	if isTaken(err, "tenants_uid_key") {
		return Tenant{}, ErrUIDTaken
	}
	if err != nil || t.State == was {
		return t, err
	}
	return t, notifyTx(ctx, tx, "tenant "+id.String())
}

// notifyTx tells every process of a change, at the commit.
func notifyTx(ctx context.Context, tx pgx.Tx, payload string) error {
	if _, err := tx.Exec(ctx, `select pg_notify('gateway_changes', $1)`, payload); err != nil {
		return fmt.Errorf("notify of a change: %w", err)
	}
	return nil
}

// isTaken says whether a statement failed on a unique constraint.
func isTaken(err error, constraint string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23505" && e.ConstraintName == constraint
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
