package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// Limits of a rotation.
const (
	// MaxSecrets is how many secrets of an endpoint sign at once: each adds a signature to the header of every attempt.
	MaxSecrets = 3
	// MaxGrace is the longest that a secret signs on after its rotation.
	MaxGrace = 7 * 24 * time.Hour
)

// ErrRotationLimit says that MaxSecrets sign already: end the previous ones first, or wait for it.
var ErrRotationLimit = errors.New("as many secrets sign as may")

// Rotation is a change of an endpoint's secret.
type Rotation struct {
	Secret signing.Secret // brought from elsewhere; the zero value: a new one is made
	Grace  time.Duration  // how long the one before signs on, 0 to MaxGrace; 0 stops it at once
}

// Rotate gives an endpoint of the caller's tenant a new secret, if it still has the version that the caller names (nil:
// any). The one before signs on for the grace; those that were rotated earlier keep the end that they were given. Attempts
// made after it returns carry the new signature first. Errors: *Invalid, ErrNotFound, *VersionError, ErrRotationLimit.
func (st *Store) Rotate(ctx context.Context, caller tenant.Caller, ref Ref, r Rotation, ifVersion *int64) (e Endpoint, secret signing.Secret, err error) {
	err = pgx.BeginFunc(ctx, st.db, func(tx pgx.Tx) error {
		e, secret, err = st.RotateTx(ctx, tx, caller, ref, r, ifVersion)
		return err
	})
	return e, secret, err
}

// RotateTx is Rotate within the caller's transaction.
func (st *Store) RotateTx(ctx context.Context, tx pgx.Tx, caller tenant.Caller, ref Ref, r Rotation, ifVersion *int64) (Endpoint, signing.Secret, error) {
	if r.Grace < 0 || r.Grace > MaxGrace {
		return Endpoint{}, signing.Secret{}, &Invalid{Field: "grace_seconds", Code: tenant.CodeInvalid, Detail: "It must be from 0 to 604800, seven days."}
	}
	if r.Secret.IsZero() {
		made, err := signing.NewSecret()
		if err != nil {
			return Endpoint{}, signing.Secret{}, fmt.Errorf("rotate a secret: %w", err)
		}
		r.Secret = made
	}
	id, err := st.beginRotationTx(ctx, tx, caller, ref, ifVersion)
	if err != nil {
		return Endpoint{}, signing.Secret{}, fmt.Errorf("rotate a secret: %w", err)
	}
	if err := st.replaceSecretTx(ctx, tx, caller.Tenant, id, r); err != nil {
		return Endpoint{}, signing.Secret{}, fmt.Errorf("rotate a secret: %w", err)
	}
	e, err := readTx(ctx, tx, caller.Tenant, id)
	if err != nil {
		return Endpoint{}, signing.Secret{}, fmt.Errorf("rotate a secret: %w", err)
	}
	return e, r.Secret, nil
}

// EndPrevious ends the grace of every secret but the newest. Errors: ErrNotFound, *VersionError.
func (st *Store) EndPrevious(ctx context.Context, caller tenant.Caller, ref Ref, ifVersion *int64) (Endpoint, error) {
	var e Endpoint
	err := pgx.BeginFunc(ctx, st.db, func(tx pgx.Tx) error {
		id, err := st.beginRotationTx(ctx, tx, caller, ref, ifVersion)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			delete from gateway.endpoint_secrets where tenant_id = $1 and endpoint_id = $2 and retires_at is not null`, caller.Tenant, id); err != nil {
			return err
		}
		e, err = readTx(ctx, tx, caller.Tenant, id)
		return err
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("end previous secrets: %w", err)
	}
	return e, nil
}

// beginRotationTx locks an endpoint and gives it a new version, under which every process reads its secrets anew.
func (st *Store) beginRotationTx(ctx context.Context, tx pgx.Tx, caller tenant.Caller, ref Ref, ifVersion *int64) (uuid.UUID, error) {
	id, err := resolve(ctx, tx, caller.Tenant, ref)
	if err != nil {
		return uuid.Nil, err
	}
	if err := changedTx(ctx, tx, caller.Tenant); err != nil {
		return uuid.Nil, err
	}
	if _, err := lockTx(ctx, tx, caller.Tenant, id, ifVersion); err != nil {
		return uuid.Nil, err
	}
	e, err := readTx(ctx, tx, caller.Tenant, id)
	if err != nil {
		return uuid.Nil, err
	}
	if err := e.mayManage(caller); err != nil {
		return uuid.Nil, err
	}
	_, err = tx.Exec(ctx, `
		update gateway.endpoints set version = version + 1, updated_at = now() where tenant_id = $1 and id = $2`, caller.Tenant, id)
	return id, err
}

// replaceSecretTx puts a secret in front of those that sign. What has retired is deleted on the way.
func (st *Store) replaceSecretTx(ctx context.Context, tx pgx.Tx, tenantID, id uuid.UUID, r Rotation) error {
	tag, err := tx.Exec(ctx, `
		update gateway.endpoint_secrets set retires_at = now() + $3::interval
		where tenant_id = $1 and endpoint_id = $2 and retires_at is null`, tenantID, id, r.Grace)
	if err != nil {
		return fmt.Errorf("retire the secret before: %w", err)
	}
	if _, err := tx.Exec(ctx, `
		delete from gateway.endpoint_secrets where tenant_id = $1 and endpoint_id = $2 and retires_at <= now()`, tenantID, id); err != nil {
		return fmt.Errorf("delete retired secrets: %w", err)
	}
	var signing int
	err = tx.QueryRow(ctx, `
		select count(*) from gateway.endpoint_secrets
		where tenant_id = $1 and endpoint_id = $2 and retires_at > now()`, tenantID, id).Scan(&signing)
	switch {
	case err != nil:
		return fmt.Errorf("count the secrets that sign: %w", err)
	case signing >= MaxSecrets:
		return ErrRotationLimit
	case tag.RowsAffected() == 0:
		return fmt.Errorf("endpoint %s has no secret to rotate", id)
	}
	sealed, err := st.ring.Seal([]byte(r.Secret.Text()), purposeSecret, id)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		insert into gateway.endpoint_secrets (endpoint_id, tenant_id, sealed, fingerprint) values ($1, $2, $3, $4)`,
		id, tenantID, sealed, r.Secret.Fingerprint())
	if err != nil {
		return fmt.Errorf("insert the new secret: %w", err)
	}
	return nil
}
