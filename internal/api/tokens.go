package api

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"

	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// ListTokens lists the tokens of the caller's tenant.
func (c *call) ListTokens(ctx context.Context, r ListTokensRequestObject) (ListTokensResponseObject, error) {
	body, err := c.tokens(ctx, c.caller.Tenant, r.Params.Limit, r.Params.Cursor)
	return ListTokens200JSONResponse{Body: body}, err
}

// ListTenantTokens lists the tokens of a tenant.
func (c *call) ListTenantTokens(ctx context.Context, r ListTenantTokensRequestObject) (ListTenantTokensResponseObject, error) {
	id, err := c.tenantID(ctx, r.TenantID)
	if err != nil {
		return nil, err
	}
	if _, err := c.cfg.Tenants.Get(ctx, id); err != nil {
		return nil, err
	}
	body, err := c.tokens(ctx, id, r.Params.Limit, r.Params.Cursor)
	return ListTenantTokens200JSONResponse{Body: body}, err
}

func (c *call) tokens(ctx context.Context, tenantID uuid.UUID, limit *Limit, cursor *Cursor) (body TokenList, err error) {
	p, err := c.page(16, limit, cursor)
	if err != nil {
		return body, err
	}
	tokens, more, err := c.cfg.Authority.List(ctx, tenant.TokenQuery{Tenant: tenantID, Limit: p.limit, Before: p.after()})
	if err != nil {
		return body, err
	}
	var next nullable.Nullable[string]
	body.HasMore = more
	body.Data, next = listed(p, tokens, more, tokenModel, func(t tenant.Token) []byte { return t.ID[:] })
	body.NextCursor = next
	return body, nil
}

// CreateToken makes a token for the caller's tenant.
func (c *call) CreateToken(ctx context.Context, r CreateTokenRequestObject) (CreateTokenResponseObject, error) {
	body, err := c.issue(ctx, c.caller.Tenant, *r.Body)
	return CreateToken201JSONResponse{Body: body}, err
}

// CreateTenantToken makes a token for a tenant.
func (c *call) CreateTenantToken(ctx context.Context, r CreateTenantTokenRequestObject) (CreateTenantTokenResponseObject, error) {
	id, err := c.tenantID(ctx, r.TenantID)
	if err != nil {
		return nil, err
	}
	body, err := c.issue(ctx, id, *r.Body)
	return CreateTenantToken201JSONResponse{Body: body}, err
}

func (c *call) issue(ctx context.Context, tenantID uuid.UUID, b TokenCreate) (TokenCreated, error) {
	t, text, err := c.cfg.Authority.IssueTx(ctx, c.tx, tenant.TokenSpec{
		Tenant: tenantID, Name: b.Name, Subject: deref(b.Subject), Role: string(deref(b.Role)),
		Scopes: namesOf[string](deref(b.Scopes)), EventScopes: deref(b.EventScopes),
		Lifetime: time.Duration(deref(b.ExpiresInSeconds)) * time.Second, By: &c.caller,
	})
	if err != nil {
		return TokenCreated{}, err
	}
	m := tokenModel(t)
	return TokenCreated{
		ID: m.ID, Name: m.Name, Subject: m.Subject, Scopes: m.Scopes, EventScopes: m.EventScopes, CreatedBy: m.CreatedBy,
		CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt, LastUsedAt: m.LastUsedAt, RevokedAt: m.RevokedAt, Token: text,
	}, nil
}

// RevokeToken revokes a token of the caller's tenant.
func (c *call) RevokeToken(ctx context.Context, r RevokeTokenRequestObject) (RevokeTokenResponseObject, error) {
	return RevokeToken204Response{}, c.revoke(ctx, r.TokenID)
}

// RevokeAnyToken revokes any token.
func (c *call) RevokeAnyToken(ctx context.Context, r RevokeAnyTokenRequestObject) (RevokeAnyTokenResponseObject, error) {
	return RevokeAnyToken204Response{}, c.revoke(ctx, r.TokenID)
}

func (c *call) revoke(ctx context.Context, text string) error {
	id, err := idOf(typeid.Token, text)
	if err != nil {
		return err
	}
	return c.cfg.Authority.Revoke(ctx, c.caller, id)
}

func tokenModel(t tenant.Token) Token {
	m := Token{
		ID: typeid.Format(typeid.Token, t.ID), Name: t.Name, Subject: t.Subject, Scopes: namesOf[TokenScope](t.Scopes),
		CreatedBy: t.CreatedBy, CreatedAt: stamp(t.CreatedAt), ExpiresAt: stamp(t.ExpiresAt),
		LastUsedAt: stampOf(t.LastUsedAt), RevokedAt: stampOf(t.RevokedAt),
	}
	if t.EventScopes != nil {
		m.EventScopes = &t.EventScopes
	}
	return m
}
