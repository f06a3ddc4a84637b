package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// What an endpoint's own things are sealed for; the owner is the endpoint.
const (
	purposeSecret  = "endpoint_secret"
	purposeHeaders = "endpoint_headers"
)

// Store reads and writes endpoints.
type Store struct {
	db      *pgxpool.Pool
	ring    *signing.Keyring
	policy  egress.Policy
	limit   int
	targets *targets
}

// NewStore returns the store of endpoints. The policy judges their URLs; limit is how many a tenant may have.
func NewStore(db *pgxpool.Pool, ring *signing.Keyring, policy egress.Policy, limit int) *Store {
	return &Store{db: db, ring: ring, policy: policy, limit: limit, targets: newTargets()}
}

// Create makes an endpoint of the caller's tenant, with its secret, which is readable this once only. Errors: *Invalid,
// ErrUIDTaken, ErrLimit, ErrNotFound (the tenant).
func (st *Store) Create(ctx context.Context, caller tenant.Caller, spec Spec) (e Endpoint, secret signing.Secret, err error) {
	err = pgx.BeginFunc(ctx, st.db, func(tx pgx.Tx) error {
		e, secret, err = st.CreateTx(ctx, tx, caller, spec)
		return err
	})
	return e, secret, err
}

// CreateTx is Create within the caller's transaction.
func (st *Store) CreateTx(ctx context.Context, tx pgx.Tx, caller tenant.Caller, spec Spec) (Endpoint, signing.Secret, error) {
	e := spec.fresh(caller)
	if err := e.check(st.policy, true); err != nil {
		return Endpoint{}, signing.Secret{}, err
	}
	if err := e.mayManage(caller); err != nil {
		return Endpoint{}, signing.Secret{}, err
	}
	given := make(map[string]*string, len(spec.Headers))
	for name, value := range spec.Headers {
		given[name] = &value
	}
	headers, err := mergeHeaders(nil, given)
	if err != nil {
		return Endpoint{}, signing.Secret{}, err
	}
	secret := spec.Secret
	if secret.IsZero() {
		if secret, err = signing.NewSecret(); err != nil {
			return Endpoint{}, signing.Secret{}, fmt.Errorf("create an endpoint: %w", err)
		}
	}
	if e, err = st.insertTx(ctx, tx, caller, e, headers, secret); err != nil {
		return Endpoint{}, signing.Secret{}, fmt.Errorf("create an endpoint: %w", err)
	}
	return e, secret, nil
}

func (st *Store) insertTx(ctx context.Context, tx pgx.Tx, caller tenant.Caller, e Endpoint, headers map[string]string, secret signing.Secret) (Endpoint, error) {
	if err := changedTx(ctx, tx, e.TenantID); err != nil {
		return Endpoint{}, err
	}
	// The tenant's row is locked now, so nobody else adds one; the count has to be a statement after that.
	var count int
	err := tx.QueryRow(ctx, `
		select count(*), gateway.uuid_v7() from gateway.endpoints
		where tenant_id = $1 and deleted_at is null`, e.TenantID).Scan(&count, &e.ID)
	if err != nil {
		return Endpoint{}, fmt.Errorf("count the endpoints: %w", err)
	}
	if count >= st.limit {
		return Endpoint{}, ErrLimit
	}
	sealedHeaders, err := st.sealHeaders(e.ID, headers)
	if err != nil {
		return Endpoint{}, err
	}
	tag, err := tx.Exec(ctx, `
		insert into gateway.endpoints (id, tenant_id, uid, url, description, types, scopes, headers, header_names, metadata,
			timeout_ms, max_in_flight, rate_per_second, schedule, traceparent, created_by)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, coalesce($10, '{}'::jsonb), $11, $12, $13, $14, $15, $16)
		on conflict (tenant_id, uid) where uid is not null and deleted_at is null do nothing`,
		e.ID, e.TenantID, e.UID, e.URL, e.Description, e.Types, e.Scopes, sealedHeaders, sortedNames(headers), e.Metadata,
		e.Timeout.Milliseconds(), e.MaxInFlight, e.RatePerSecond, seconds(e.Schedule), e.TraceParent, caller.Subject)
	if err != nil {
		return Endpoint{}, fmt.Errorf("insert an endpoint: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return Endpoint{}, ErrUIDTaken
	}
	sealedSecret, err := st.ring.Seal([]byte(secret.Text()), purposeSecret, e.ID)
	if err != nil {
		return Endpoint{}, err
	}
	_, err = tx.Exec(ctx, `
		with secret as (
			insert into gateway.endpoint_secrets (endpoint_id, tenant_id, sealed, fingerprint) values ($1, $2, $3, $4))
		insert into gateway.endpoint_state (endpoint_id, tenant_id) values ($1, $2)`,
		e.ID, e.TenantID, sealedSecret, secret.Fingerprint())
	if err != nil {
		return Endpoint{}, fmt.Errorf("insert an endpoint's secret and state: %w", err)
	}
	return readTx(ctx, tx, e.TenantID, e.ID)
}

// Update changes an endpoint of the caller's tenant, if it still has the version that the caller names (nil: any).
// Attempts that run go on with what they have; all later ones use the change. Errors: *Invalid, ErrNotFound,
// *VersionError, ErrUIDTaken.
func (st *Store) Update(ctx context.Context, caller tenant.Caller, ref Ref, patch Patch, ifVersion *int64) (Endpoint, error) {
	var e Endpoint
	err := pgx.BeginFunc(ctx, st.db, func(tx pgx.Tx) error {
		var err error
		e, err = st.updateTx(ctx, tx, caller, ref, patch, ifVersion)
		return err
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("change an endpoint: %w", err)
	}
	return e, nil
}

func (st *Store) updateTx(ctx context.Context, tx pgx.Tx, caller tenant.Caller, ref Ref, patch Patch, ifVersion *int64) (Endpoint, error) {
	id, err := resolve(ctx, tx, caller.Tenant, ref)
	if err != nil {
		return Endpoint{}, err
	}
	if err := changedTx(ctx, tx, caller.Tenant); err != nil {
		return Endpoint{}, err
	}
	sealed, err := lockTx(ctx, tx, caller.Tenant, id, ifVersion)
	if err != nil {
		return Endpoint{}, err
	}
	current, err := readTx(ctx, tx, caller.Tenant, id)
	if err != nil {
		return Endpoint{}, err
	}
	next := patch.apply(current, caller)
	if err := next.check(st.policy, !patch.URL.Keeps()); err != nil {
		return Endpoint{}, err
	}
	if err := next.mayManage(caller); err != nil {
		return Endpoint{}, err
	}
	if sealed, next.HeaderNames, err = st.patchHeaders(next, sealed, patch.Headers); err != nil {
		return Endpoint{}, err
	}
	_, err = tx.Exec(ctx, `
		update gateway.endpoints
		set uid = $3, url = $4, description = $5, types = $6, scopes = $7, headers = $8, header_names = $9, metadata = $10,
			timeout_ms = $11, max_in_flight = $12, rate_per_second = $13, schedule = $14, traceparent = $15,
			version = version + 1, updated_at = now()
		where tenant_id = $1 and id = $2`,
		next.TenantID, next.ID, next.UID, next.URL, next.Description, next.Types, next.Scopes, sealed, next.HeaderNames, next.Metadata,
		next.Timeout.Milliseconds(), next.MaxInFlight, next.RatePerSecond, seconds(next.Schedule), next.TraceParent)
	var taken *pgconn.PgError
	if errors.As(err, &taken) && taken.Code == "23505" && taken.ConstraintName == "endpoints_uid" {
		return Endpoint{}, ErrUIDTaken
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("update an endpoint: %w", err)
	}
	return readTx(ctx, tx, caller.Tenant, id)
}

// patchHeaders returns what is stored of an endpoint's own headers after a change. They are opened only if some stay.
func (st *Store) patchHeaders(e Endpoint, sealed []byte, change Change[map[string]*string]) ([]byte, []string, error) {
	if change.Keeps() {
		return sealed, e.HeaderNames, nil
	}
	var headers map[string]string
	if !change.Clears() {
		current, err := st.openHeaders(e.ID, sealed)
		if err != nil {
			return nil, nil, err
		}
		if headers, err = mergeHeaders(current, change.Apply(nil, nil)); err != nil {
			return nil, nil, err
		}
	}
	sealed, err := st.sealHeaders(e.ID, headers)
	return sealed, sortedNames(headers), err
}

// Delete ends an endpoint of the caller's tenant, if it still has the version that the caller names (nil: any). Its uid
// is free again, and what was sealed is gone; its deliveries end as they come due. Errors: ErrNotFound, *VersionError.
func (st *Store) Delete(ctx context.Context, caller tenant.Caller, ref Ref, ifVersion *int64) error {
	err := pgx.BeginFunc(ctx, st.db, func(tx pgx.Tx) error {
		id, err := resolve(ctx, tx, caller.Tenant, ref)
		if err != nil {
			return err
		}
		if err := lockStateTx(ctx, tx, caller.Tenant, id); err != nil {
			return err
		}
		if err := changedTx(ctx, tx, caller.Tenant); err != nil {
			return err
		}
		if _, err := lockTx(ctx, tx, caller.Tenant, id, ifVersion); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			with secrets as (
				delete from gateway.endpoint_secrets where tenant_id = $1 and endpoint_id = $2)
			update gateway.endpoints
			set deleted_at = now(), headers = null, version = version + 1, updated_at = now()
			where tenant_id = $1 and id = $2`, caller.Tenant, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete an endpoint: %w", err)
	}
	return nil
}

// DisableTx disables an endpoint within the caller's transaction, for a reason (failing, gone, manual) and by somebody
// ("gateway", or a caller's subject), and says whether it was not disabled before. One that is deleted, or whose tenant
// is, stays as it is: that is no error, since results of other endpoints may be in the same transaction.
//
// It takes locks in the order of this package's doc, the endpoint's state first. A transaction that disables endpoints
// of several tenants may meet another one that does, and end with 40P01: it is to be tried again.
func (st *Store) DisableTx(ctx context.Context, tx pgx.Tx, tenantID, endpointID uuid.UUID, reason, by string) (changed bool, err error) {
	if err := lockStateTx(ctx, tx, tenantID, endpointID); err != nil {
		return false, err
	}
	if err := changedTx(ctx, tx, tenantID); errors.Is(err, ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, `
		update gateway.endpoints
		set state = 'disabled', disabled_reason = $3, state_at = now(), state_by = $4, version = version + 1, updated_at = now()
		where tenant_id = $1 and id = $2 and state <> 'disabled' and deleted_at is null`, tenantID, endpointID, reason, by)
	if err != nil {
		return false, fmt.Errorf("disable an endpoint: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// changedTx raises what a tenant's cached endpoints are as old as, tells every process, and locks the tenant's row.
func changedTx(ctx context.Context, tx pgx.Tx, tenantID uuid.UUID) error {
	var told bool
	err := tx.QueryRow(ctx, `
		with changed as (
			update gateway.tenants set config_version = config_version + 1
			where id = $1 and deleted_at is null
			returning id)
		select pg_notify('gateway_changes', 'endpoint ' || id) is not null from changed`, tenantID).Scan(&told)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("raise a tenant's config_version: %w", err)
	}
	return nil
}

// lockStateTx locks what moves with an endpoint's attempts, against those who give out its leases.
func lockStateTx(ctx context.Context, tx pgx.Tx, tenantID, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `
		select from gateway.endpoint_state where tenant_id = $1 and endpoint_id = $2 for no key update`, tenantID, id)
	if err != nil {
		return fmt.Errorf("lock an endpoint's state: %w", err)
	}
	return nil
}

// lockTx locks an endpoint of the version that the caller names, and returns its sealed headers.
func lockTx(ctx context.Context, tx pgx.Tx, tenantID, id uuid.UUID, ifVersion *int64) ([]byte, error) {
	var version int64
	var sealed []byte
	err := tx.QueryRow(ctx, `
		select version, headers from gateway.endpoints
		where tenant_id = $1 and id = $2 and deleted_at is null
		for no key update`, tenantID, id).Scan(&version, &sealed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("lock an endpoint: %w", err)
	case ifVersion != nil && *ifVersion != version:
		return nil, &VersionError{Current: version}
	}
	return sealed, nil
}

func (st *Store) sealHeaders(id uuid.UUID, headers map[string]string) ([]byte, error) {
	if len(headers) == 0 {
		return nil, nil
	}
	plain, err := json.Marshal(headers)
	if err != nil {
		return nil, fmt.Errorf("write headers: %w", err)
	}
	return st.ring.Seal(plain, purposeHeaders, id)
}

func (st *Store) openHeaders(id uuid.UUID, sealed []byte) (map[string]string, error) {
	if sealed == nil {
		return nil, nil
	}
	plain, err := st.ring.Open(sealed, purposeHeaders, id)
	if err != nil {
		return nil, fmt.Errorf("open the headers of an endpoint: %w", err)
	}
	var headers map[string]string
	if err := json.Unmarshal(plain, &headers); err != nil {
		return nil, fmt.Errorf("read the headers of an endpoint: %w", err)
	}
	return headers, nil
}
