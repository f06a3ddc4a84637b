package api

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"

	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// uidPrefix marks a caller's own name where a path takes an id.
const uidPrefix = "uid:"

// endpointRef reads what a path names: an id, or uid: and a name. What is neither names nothing.
func endpointRef(text string) (endpoint.Ref, error) {
	if uid, ok := strings.CutPrefix(text, uidPrefix); ok {
		if !validUID(uid) {
			return endpoint.Ref{}, notFound()
		}
		return endpoint.Ref{UID: uid}, nil
	}
	id, err := idOf(typeid.Endpoint, text)
	return endpoint.Ref{ID: id}, err
}

// ListEndpoints lists endpoints.
func (c *call) ListEndpoints(ctx context.Context, r ListEndpointsRequestObject) (ListEndpointsResponseObject, error) {
	p, err := c.page(16, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	endpoints, more, err := c.cfg.Endpoints.List(ctx, c.caller.Tenant, endpoint.ListQuery{
		Limit: p.limit, Before: p.after(), States: namesOf[endpoint.State](deref(r.Params.State)),
		Health: endpoint.HealthStatus(deref(r.Params.Health)), UID: deref(r.Params.UID),
	})
	if err != nil {
		return nil, err
	}
	body := EndpointList{HasMore: more}
	body.Data, body.NextCursor = listed(p, endpoints, more, endpointModel, func(e endpoint.Endpoint) []byte { return e.ID[:] })
	return ListEndpoints200JSONResponse{Body: body}, nil
}

// CreateEndpoint creates an endpoint.
func (c *call) CreateEndpoint(ctx context.Context, r CreateEndpointRequestObject) (CreateEndpointResponseObject, error) {
	b := r.Body
	spec := endpoint.Spec{
		UID: b.UID, URL: b.URL, Description: deref(b.Description), Types: deref(b.Types), Scopes: deref(b.Scopes),
		Headers: deref(b.Headers), Metadata: deref(b.Metadata), Timeout: time.Duration(deref(b.TimeoutMs)) * time.Millisecond,
		MaxInFlight: deref(b.MaxInFlight), Schedule: delays(deref(b.Schedule)),
	}
	secret, err := broughtSecret(b.Secret)
	if err != nil {
		return nil, err
	}
	spec.Secret = secret
	e, secret, err := c.cfg.Endpoints.CreateTx(ctx, c.tx, c.caller, spec)
	if err != nil {
		return nil, err
	}
	return CreateEndpoint201JSONResponse{
		Body:    createdModel(endpointModel(e), secret.Text()),
		Headers: CreateEndpoint201ResponseHeaders{Location: "/v1/endpoints/" + typeid.Format(typeid.Endpoint, e.ID), ETag: etag(e.Version)},
	}, nil
}

// GetEndpoint reads an endpoint.
func (c *call) GetEndpoint(ctx context.Context, r GetEndpointRequestObject) (GetEndpointResponseObject, error) {
	ref, err := endpointRef(r.EndpointID)
	if err != nil {
		return nil, err
	}
	e, err := c.cfg.Endpoints.Get(ctx, c.caller.Tenant, ref)
	if err != nil {
		return nil, err
	}
	if unchanged(r.Params.IfNoneMatch, e.Version) {
		return GetEndpoint304Response{Headers: NotModifiedResponseHeaders{ETag: etag(e.Version)}}, nil
	}
	return GetEndpoint200JSONResponse{Body: endpointModel(e), Headers: GetEndpoint200ResponseHeaders{ETag: etag(e.Version)}}, nil
}

// UpdateEndpoint changes an endpoint.
func (c *call) UpdateEndpoint(ctx context.Context, r UpdateEndpointRequestObject) (UpdateEndpointResponseObject, error) {
	ref, err := endpointRef(r.EndpointID)
	if err != nil {
		return nil, err
	}
	version, err := ifVersion(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	b := r.Body
	patch := endpoint.Patch{
		UID:         changeTo(b.UID, func(s string) *string { return &s }),
		Description: changeTo(b.Description, same), Types: changeTo(b.Types, same), Scopes: changeTo(b.Scopes, same),
		Headers: changeTo(b.Headers, same), Metadata: changeTo(b.Metadata, same),
		Timeout:     changeTo(b.TimeoutMs, func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }),
		MaxInFlight: changeTo(b.MaxInFlight, same), Schedule: changeTo(b.Schedule, delays),
	}
	if b.URL != nil {
		patch.URL = tenant.To(*b.URL)
	}
	e, err := c.cfg.Endpoints.Update(ctx, c.caller, ref, patch, version)
	if err != nil {
		return nil, err
	}
	return UpdateEndpoint200JSONResponse{Body: endpointModel(e), Headers: UpdateEndpoint200ResponseHeaders{ETag: etag(e.Version)}}, nil
}

// DeleteEndpoint deletes an endpoint.
func (c *call) DeleteEndpoint(ctx context.Context, r DeleteEndpointRequestObject) (DeleteEndpointResponseObject, error) {
	ref, err := endpointRef(r.EndpointID)
	if err != nil {
		return nil, err
	}
	version, err := ifVersion(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	if err := c.cfg.Endpoints.Delete(ctx, c.caller, ref, version); err != nil {
		return nil, err
	}
	return DeleteEndpoint204Response{}, nil
}

// changeTo reads a field of a merge patch: absent, null or a value.
func changeTo[M, D any](field nullable.Nullable[M], value func(M) D) tenant.Change[D] {
	switch {
	case field.IsNull():
		return tenant.Clear[D]()
	case field.IsSpecified():
		return tenant.To(value(field.MustGet()))
	}
	return tenant.Change[D]{}
}

func same[T any](value T) T { return value }

// delays are the seconds of a schedule. One that is too long for a Duration is cut: it is refused as too long anyway.
func delays(seconds []int) []time.Duration {
	if seconds == nil {
		return nil
	}
	const most = 1 << 30
	out := make([]time.Duration, len(seconds))
	for i, s := range seconds {
		out[i] = time.Duration(min(s, most)) * time.Second
	}
	return out
}

func endpointModel(e endpoint.Endpoint) Endpoint {
	m := Endpoint{
		ID: typeid.Format(typeid.Endpoint, e.ID), UID: e.UID, URL: e.URL, Description: e.Description,
		Types: listOf(e.Types), Scopes: listOf(e.Scopes), HeaderNames: listOf(e.HeaderNames), Metadata: e.Metadata,
		TimeoutMs: int(e.Timeout.Milliseconds()), MaxInFlight: e.MaxInFlight,
		State: EndpointState(e.State), DisabledReason: nameOf[DisabledReason](e.DisabledReason), StateAt: stamp(e.StateAt),
		Health: EndpointHealth{
			Status: EndpointHealthStatus(e.Health.Status), FailingSince: stampOf(e.Health.FailingSince),
			LastFailureAt: stampOf(e.Health.LastFailureAt), LastSuccessAt: stampOf(e.Health.LastSuccessAt),
			LastClass: nameOf[AttemptClass](e.Health.LastClass), Failures: e.Health.Failures, CooldownUntil: stampOf(e.Health.CooldownUntil),
		},
		Secrets:   make([]SecretInfo, len(e.Secrets)),
		CreatedAt: stamp(e.CreatedAt), UpdatedAt: stamp(e.UpdatedAt),
	}
	if m.Metadata == nil {
		m.Metadata = Metadata{}
	}
	if e.Schedule != nil {
		schedule := make(Schedule, len(e.Schedule))
		for i, d := range e.Schedule {
			schedule[i] = int(d / time.Second)
		}
		m.Schedule = &schedule
	}
	for i, s := range e.Secrets {
		m.Secrets[i] = SecretInfo{Fingerprint: s.Fingerprint, CreatedAt: stamp(s.CreatedAt), RetiresAt: stampOf(s.RetiresAt)}
	}
	return m
}

func createdModel(e Endpoint, secret string) EndpointCreated {
	return EndpointCreated{
		ID: e.ID, UID: e.UID, URL: e.URL, Description: e.Description, Types: e.Types, Scopes: e.Scopes, HeaderNames: e.HeaderNames,
		Metadata: e.Metadata, TimeoutMs: e.TimeoutMs, MaxInFlight: e.MaxInFlight, Schedule: e.Schedule, State: e.State,
		DisabledReason: e.DisabledReason, StateAt: e.StateAt, Health: e.Health, Secrets: e.Secrets,
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, Secret: secret,
	}
}

// tenantID resolves what a path of the operator names: an id, or uid: and a name.
func (c *call) tenantID(ctx context.Context, text string) (uuid.UUID, error) {
	uid, ok := strings.CutPrefix(text, uidPrefix)
	switch {
	case !ok:
		return idOf(typeid.Tenant, text)
	case !validUID(uid):
		return uuid.Nil, notFound()
	}
	if c.tx != nil {
		t, err := c.cfg.Tenants.GetByUIDTx(ctx, c.tx, uid)
		return t.ID, err
	}
	t, err := c.cfg.Tenants.GetByUID(ctx, uid)
	return t.ID, err
}
