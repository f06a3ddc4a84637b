package tenant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// AuthorityConfig says who issues tokens and for whom. Pool and Keyring are needed.
type AuthorityConfig struct {
	Pool          *pgxpool.Pool
	Keyring       *signing.Keyring // seals the private keys
	Issuer        string           // iss; empty: sallyport
	Audience      string           // aud of a tenant's tokens; empty: gateway-api
	AdminAudience string           // aud of an operator's; empty: gateway-admin
	MaxLifetime   time.Duration    // of a token; 0: 366 days. A token of a longer one is refused
	Log           *slog.Logger     // nil: slog.Default
	Now           func() time.Time // nil: time.Now
}

func (c AuthorityConfig) withDefaults() AuthorityConfig {
	if c.Issuer == "" {
		c.Issuer = "sallyport"
	}
	if c.Audience == "" {
		c.Audience = "gateway-api"
	}
	if c.AdminAudience == "" {
		c.AdminAudience = "gateway-admin"
	}
	if c.MaxLifetime == 0 {
		c.MaxLifetime = 366 * 24 * time.Hour
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Authority issues tokens and says whose a token is.
type Authority struct {
	cfg      AuthorityConfig
	db       *pgxpool.Pool
	verifier *verifier
	keys     *keys
	rows     *rows
	usage    *usage
}

// NewAuthority returns an authority. It reads nothing yet; EnsureKey is to be called once before tokens are issued.
func NewAuthority(c AuthorityConfig) *Authority {
	c = c.withDefaults()
	return &Authority{
		cfg:      c,
		db:       c.Pool,
		verifier: newVerifier(c),
		keys:     &keys{db: c.Pool, now: c.Now},
		rows:     &rows{db: c.Pool, now: c.Now, known: make(map[uuid.UUID]row)},
		usage:    &usage{db: c.Pool, now: c.Now, used: make(map[uuid.UUID]use)},
	}
}

// Issue makes a token and returns its text, which is kept nowhere. Errors: *Invalid, ErrNotFound (the tenant).
func (a *Authority) Issue(ctx context.Context, spec TokenSpec) (token Token, text string, err error) {
	err = pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		token, text, err = a.IssueTx(ctx, tx, spec)
		return err
	})
	return token, text, err
}

// IssueTx is Issue within the caller's transaction.
func (a *Authority) IssueTx(ctx context.Context, tx pgx.Tx, spec TokenSpec) (Token, string, error) {
	spec, err := spec.normalize(a.cfg.MaxLifetime)
	if err != nil {
		return Token{}, "", err
	}
	kid, private, err := signingKeyTx(ctx, tx, a.cfg.Keyring)
	if err != nil {
		return Token{}, "", fmt.Errorf("issue a token: %w", err)
	}
	now := a.cfg.Now().Truncate(time.Second)
	token, err := insertTokenTx(ctx, tx, spec, kid, now.Add(spec.Lifetime))
	if err != nil {
		return Token{}, "", fmt.Errorf("issue a token: %w", err)
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, a.claimsOf(spec, token, now))
	t.Header["kid"] = kid
	text, err := t.SignedString(private)
	if err != nil {
		return Token{}, "", fmt.Errorf("issue a token: %w", err)
	}
	if len(text) > maxText {
		return Token{}, "", invalid("event_scopes", "The token would be longer than %d bytes.", maxText)
	}
	return token, text, nil
}

func (a *Authority) claimsOf(spec TokenSpec, token Token, now time.Time) *claims {
	c := &claims{
		Issuer: a.cfg.Issuer, Audience: audience(a.cfg.Audience), Subject: spec.Subject,
		Scope: strings.Join(spec.Scopes, " "), EventScopes: spec.EventScopes,
		IssuedAt: at(now), NotBefore: at(now), ExpiresAt: at(token.ExpiresAt), ID: typeid.Format(typeid.Token, token.ID),
	}
	if spec.Admin {
		c.Audience = audience(a.cfg.AdminAudience)
	} else {
		c.Tenant = typeid.Format(typeid.Tenant, spec.Tenant)
	}
	return c
}

func insertTokenTx(ctx context.Context, tx pgx.Tx, spec TokenSpec, kid string, expires time.Time) (Token, error) {
	by := "operator"
	if spec.By != nil {
		by = spec.By.Subject
	}
	rows, _ := tx.Query(ctx, `
		insert into gateway.tokens (tenant_id, name, subject, scopes, event_scopes, kid, created_by, expires_at)
		select n.id, $2, $3, $4, $5, $6, $7, $8
		from (select 1) one left join gateway.tenants n on n.id = $1 and n.deleted_at is null
		where n.id is not null or $1 is null
		returning id, tenant_id, name, subject, scopes, event_scopes, kid, created_by, created_at, expires_at, last_used_at, revoked_at`,
		orNull(spec.Tenant), spec.Name, spec.Subject, spec.Scopes, spec.EventScopes, kid, by, expires)
	return oneToken(rows)
}

func oneToken(rows pgx.Rows) (Token, error) {
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Token])
	if errors.Is(err, pgx.ErrNoRows) {
		return Token{}, ErrNotFound
	}
	if err != nil {
		return Token{}, fmt.Errorf("read a token: %w", err)
	}
	return t, nil
}

// Get reads a token of a tenant (nil: of the operators), or ErrNotFound.
func (a *Authority) Get(ctx context.Context, tenantID, id uuid.UUID) (Token, error) {
	rows, _ := a.db.Query(ctx, `
		select id, tenant_id, name, subject, scopes, event_scopes, kid, created_by, created_at, expires_at, last_used_at, revoked_at
		from gateway.tokens
		where id = $1 and tenant_id is not distinct from $2`, id, orNull(tenantID))
	return oneToken(rows)
}

// List reads a page of tokens, newest first, and whether there are more.
func (a *Authority) List(ctx context.Context, q TokenQuery) (page []Token, more bool, err error) {
	limit := pageSize(q.Limit)
	rows, _ := a.db.Query(ctx, `
		select id, tenant_id, name, subject, scopes, event_scopes, kid, created_by, created_at, expires_at, last_used_at, revoked_at
		from gateway.tokens
		where tenant_id is not distinct from $1 and ($2::uuid is null or id < $2)
		order by id desc
		limit $3`, orNull(q.Tenant), orNull(q.Before), limit+1)
	page, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Token])
	if err != nil {
		return nil, false, fmt.Errorf("list tokens: %w", err)
	}
	return page[:min(limit, len(page))], len(page) > limit, nil
}

// Revoke ends a token: a tenant's caller ends its tenant's, an operator's anyone's. This process refuses the token from
// its return on, others as soon as the notification reaches them, at most 30 s later. A token that is revoked stays so.
// ErrNotFound if there is none, or it is not the caller's.
func (a *Authority) Revoke(ctx context.Context, by Caller, id uuid.UUID) error {
	if by.Tenant == uuid.Nil && !by.Admin {
		return ErrNotFound
	}
	var found bool
	err := a.db.QueryRow(ctx, `
		with revoked as (
			update gateway.tokens set revoked_at = coalesce(revoked_at, now())
			where id = $1 and ($2 or tenant_id = $3)
			returning id)
		select pg_notify('gateway_changes', 'token ' || id) is not null from revoked`,
		id, by.Admin, by.Tenant).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	a.rows.forget(id)
	return nil
}

// Invalidate drops what a notification on Channel says has changed; an empty payload drops everything, as is right
// after notifications may have been missed.
func (a *Authority) Invalidate(payload string) {
	kind, text, _ := strings.Cut(payload, " ")
	id, err := uuid.Parse(text)
	switch {
	case payload == "":
		a.keys.forget()
		a.rows.forgetAll()
	case kind == "key":
		a.keys.forget()
	case err != nil: // of a newer version, which knows kinds that this one doesn't
	case kind == "token":
		a.rows.forget(id)
	case kind == "tenant":
		a.rows.forgetTenant(id)
	}
}
