package sallyport

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/internal/client"
)

// TenantState says what a tenant may do.
type TenantState string

// The states of a tenant; new ones may come.
const (
	TenantActive    TenantState = "active"
	TenantSuspended TenantState = "suspended" // it can read, but change nothing; its deliveries are held
)

// Tenant is a customer of the operator.
type Tenant struct {
	ID          string            `json:"id"`
	UID         string            `json:"uid"`
	Name        string            `json:"name"`
	State       TenantState       `json:"state"`
	Metadata    map[string]string `json:"metadata"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	SuspendedAt *time.Time        `json:"suspended_at"`
	// ETag is the version that was read, for IfMatch; empty in lists.
	ETag string `json:"-"`
}

// TenantCreate is a tenant to be created.
type TenantCreate struct {
	Name     string            `json:"name"`
	UID      string            `json:"uid,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// IdempotencyKey is as in EndpointCreate.
	IdempotencyKey string `json:"-"`
}

// TenantPatch is a change of a tenant; zero fields stay as they are.
type TenantPatch struct {
	Name     Field[string]             `json:"name,omitzero"` // cannot be cleared
	UID      Field[string]             `json:"uid,omitzero"`
	State    Field[TenantState]        `json:"state,omitzero"`    // cannot be cleared
	Metadata Field[map[string]*string] `json:"metadata,omitzero"` // one by one; nil removes one
}

// CreateTenant creates a tenant.
func (a *Admin) CreateTenant(ctx context.Context, t TenantCreate) (Tenant, error) {
	body, err := encode(t)
	if err != nil {
		return Tenant{}, err
	}
	var made Tenant
	req, err := client.NewCreateTenantRequestWithBody(a.base, &client.CreateTenantParams{IdempotencyKey: given(t.IdempotencyKey)}, jsonType, bytes.NewReader(body))
	header, err := a.call(ctx, false, &made, req, err)
	made.ETag = header.Get("ETag")
	return made, err
}

// GetTenant reads a tenant by its id, or by "uid:" and your own name for it.
func (a *Admin) GetTenant(ctx context.Context, id string) (Tenant, error) {
	var t Tenant
	req, err := client.NewGetTenantRequest(a.base, id, nil)
	header, err := a.call(ctx, true, &t, req, err)
	t.ETag = header.Get("ETag")
	return t, err
}

// ListTenants ranges over the tenants in some states, newest first; none named: all.
func (a *Admin) ListTenants(ctx context.Context, states ...TenantState) iter.Seq2[Tenant, error] {
	return list[Tenant](ctx, a.transport, func(cursor *string) (*http.Request, error) {
		return client.NewListTenantsRequest(a.base, &client.ListTenantsParams{Limit: pageSize(0), Cursor: cursor, State: several[client.TenantState](states)})
	})
}

// UpdateTenant changes a tenant and returns it as it is then.
func (a *Admin) UpdateTenant(ctx context.Context, id string, patch TenantPatch, conditions ...Condition) (Tenant, error) {
	body, err := encode(patch)
	if err != nil {
		return Tenant{}, err
	}
	var t Tenant
	req, err := client.NewUpdateTenantRequestWithBody(a.base, id, &client.UpdateTenantParams{IfMatch: ifMatch(conditions)}, jsonType, bytes.NewReader(body))
	header, err := a.call(ctx, false, &t, req, err)
	t.ETag = header.Get("ETag")
	return t, err
}

// CreateTenantToken makes a token for a tenant and returns it with its text, which is shown this once only.
func (a *Admin) CreateTenantToken(ctx context.Context, tenantID string, t TokenCreate) (made Token, text string, err error) {
	body, err := encode(t)
	if err != nil {
		return Token{}, "", err
	}
	var answer created
	req, err := client.NewCreateTenantTokenRequestWithBody(a.base, tenantID, &client.CreateTenantTokenParams{IdempotencyKey: given(t.IdempotencyKey)}, jsonType, bytes.NewReader(body))
	_, err = a.call(ctx, false, &answer, req, err)
	return answer.Token, answer.Text, err
}

// ListTenantTokens ranges over a tenant's tokens, newest first, revoked and expired ones too.
func (a *Admin) ListTenantTokens(ctx context.Context, tenantID string) iter.Seq2[Token, error] {
	return list[Token](ctx, a.transport, func(cursor *string) (*http.Request, error) {
		return client.NewListTenantTokensRequest(a.base, tenantID, &client.ListTenantTokensParams{Limit: pageSize(0), Cursor: cursor})
	})
}

// RevokeToken ends any tenant's token, or an operator's; ending it again does nothing.
func (a *Admin) RevokeToken(ctx context.Context, id string) error {
	req, err := client.NewRevokeAnyTokenRequest(a.base, id)
	_, err = a.call(ctx, true, nil, req, err)
	return err
}
