package api

import (
	"context"

	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// ListTenants lists tenants.
func (c *call) ListTenants(ctx context.Context, r ListTenantsRequestObject) (ListTenantsResponseObject, error) {
	p, err := c.page(16, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	tenants, more, err := c.cfg.Tenants.List(ctx, tenant.ListQuery{
		Limit: p.limit, Before: p.after(), States: namesOf[tenant.State](deref(r.Params.State)),
	})
	if err != nil {
		return nil, err
	}
	body := TenantList{HasMore: more}
	body.Data, body.NextCursor = listed(p, tenants, more, tenantModel, func(t tenant.Tenant) []byte { return t.ID[:] })
	return ListTenants200JSONResponse{Body: body}, nil
}

// CreateTenant creates a tenant.
func (c *call) CreateTenant(ctx context.Context, r CreateTenantRequestObject) (CreateTenantResponseObject, error) {
	t, err := c.cfg.Tenants.CreateTx(ctx, c.tx, tenant.Spec{UID: r.Body.UID, Name: r.Body.Name, Metadata: deref(r.Body.Metadata)})
	if err != nil {
		return nil, err
	}
	return CreateTenant201JSONResponse{
		Body:    tenantModel(t),
		Headers: CreateTenant201ResponseHeaders{Location: "/admin/v1/tenants/" + typeid.Format(typeid.Tenant, t.ID), ETag: etag(t.Version)},
	}, nil
}

// GetTenant reads a tenant.
func (c *call) GetTenant(ctx context.Context, r GetTenantRequestObject) (GetTenantResponseObject, error) {
	id, err := c.tenantID(ctx, r.TenantID)
	if err != nil {
		return nil, err
	}
	t, err := c.cfg.Tenants.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if unchanged(r.Params.IfNoneMatch, t.Version) {
		return GetTenant304Response{Headers: NotModifiedResponseHeaders{ETag: etag(t.Version)}}, nil
	}
	return GetTenant200JSONResponse{Body: tenantModel(t), Headers: GetTenant200ResponseHeaders{ETag: etag(t.Version)}}, nil
}

// UpdateTenant changes a tenant.
func (c *call) UpdateTenant(ctx context.Context, r UpdateTenantRequestObject) (UpdateTenantResponseObject, error) {
	id, err := c.tenantID(ctx, r.TenantID)
	if err != nil {
		return nil, err
	}
	version, err := ifVersion(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	b := r.Body
	patch := tenant.Patch{
		UID:      changeTo(b.UID, func(s string) *string { return &s }),
		Metadata: changeTo(b.Metadata, same),
	}
	if b.Name != nil {
		patch.Name = tenant.To(*b.Name)
	}
	if b.State != nil {
		patch.State = tenant.To(tenant.State(*b.State))
	}
	t, err := c.cfg.Tenants.Update(ctx, id, patch, version)
	if err != nil {
		return nil, err
	}
	return UpdateTenant200JSONResponse{Body: tenantModel(t), Headers: UpdateTenant200ResponseHeaders{ETag: etag(t.Version)}}, nil
}

func tenantModel(t tenant.Tenant) Tenant {
	m := Tenant{
		ID: typeid.Format(typeid.Tenant, t.ID), UID: t.UID, Name: t.Name, State: TenantState(t.State), Metadata: t.Metadata,
		CreatedAt: stamp(t.CreatedAt), UpdatedAt: stamp(t.UpdatedAt), SuspendedAt: stampOf(t.SuspendedAt),
	}
	if m.Metadata == nil {
		m.Metadata = Metadata{}
	}
	return m
}
