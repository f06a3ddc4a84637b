package api_test

import (
	"encoding/json"
	"errors"

	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/sallyport-dev/sallyport/sdk/go"
)

// clients are the SDK's, of the real server.
func (g *gateway) clients(t *testing.T) (*sdk.Client, *sdk.Admin) {
	t.Helper()
	client, err := sdk.New(g.public.URL, g.acme.token)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sdk.NewAdmin(g.public.URL, g.operator)
	if err != nil {
		t.Fatal(err)
	}
	return client, admin
}

func collect[T any](t *testing.T, list iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for e, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func TestSDKPostsAndReadsEvents(t *testing.T) {
	t.Parallel()
	g := setup(t)
	c, _ := g.clients(t)
	ctx := t.Context()
	at := time.Date(2026, 7, 1, 10, 0, 0, 500_000_000, time.FixedZone("", 2*60*60))
	data := json.RawMessage(`{"n": 1.0, "h":"<&>"}`)
	post := sdk.EventPost{Type: "invoice.paid", Subject: "invoice/1", UID: "u1", Scopes: []string{"p/1"}, PreviousScopes: []string{"p/0"}, OccurredAt: at, Data: data}
	r, err := c.PostEvent(ctx, post)
	if err != nil || r.State != sdk.EventPending || r.Duplicate {
		t.Fatalf("posted %+v, %v", r, err)
	}
	again, err := c.PostEvent(ctx, post)
	if err != nil || again.ID != r.ID || !again.Duplicate {
		t.Errorf("posted again %+v, %v", again, err)
	}
	post.Data = 2
	if _, err := c.PostEvent(ctx, post); !errors.Is(err, sdk.ErrConflict) {
		t.Errorf("posted other content: %v", err)
	}
	e, err := c.GetEvent(ctx, r.ID)
	if err != nil || string(e.Data) != string(data) || !e.OccurredAt.Equal(at) || e.Subject != "invoice/1" || e.UID != "u1" || e.RequestID == "" ||
		!slices.Equal(e.Scopes, []string{"p/1"}) || !slices.Equal(e.PreviousScopes, []string{"p/0"}) {
		t.Errorf("read %+v, %v", e, err)
	}
	for range 4 {
		if _, err := c.PostEvent(ctx, sdk.EventPost{Type: "user.created", Data: nil}); err != nil {
			t.Fatal(err)
		}
	}
	if all := collect(t, c.ListEvents(ctx, sdk.EventFilter{PageSize: 2})); len(all) != 5 || all[4].ID != r.ID || all[0].Data != nil {
		t.Errorf("listed %d events", len(all))
	}
	filter := sdk.EventFilter{Types: []string{"invoice.*"}, Subject: "invoice/1", UID: "u1", States: []sdk.EventState{sdk.EventPending},
		Since: e.AcceptedAt.Add(-time.Second), Until: e.AcceptedAt.Add(time.Second)}
	if some := collect(t, c.ListEvents(ctx, filter)); len(some) != 1 {
		t.Errorf("the filter lists %d events", len(some))
	}
	var p *sdk.Problem
	if _, err := c.GetEvent(ctx, "evt_none"); !errors.Is(err, sdk.ErrNotFound) || !errors.As(err, &p) || p.RequestID == "" {
		t.Errorf("read what is not there: %v", err)
	}
	for _, err := range c.ListEvents(ctx, sdk.EventFilter{Types: []string{"***"}}) {
		if !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("a bad filter: %v", err)
		}
	}
}

func TestSDKManagesEndpoints(t *testing.T) {
	t.Parallel()
	g := setup(t)
	c, _ := g.clients(t)
	ctx := t.Context()
	e, secret, err := c.CreateEndpoint(ctx, sdk.EndpointCreate{URL: "https://hooks.example.com/in", UID: "main", Types: []string{"a.*"}, Headers: map[string]string{"X-Key": "k"}, Schedule: []int{5, 10}})
	if err != nil || !strings.HasPrefix(secret, "whsec_") || e.ETag != `"1"` || e.Health.Status != "unverified" || len(e.Secrets) != 1 {
		t.Fatalf("created %+v, %v", e, err)
	}
	e, err = c.UpdateEndpoint(ctx, e.ID, sdk.EndpointPatch{Description: sdk.Set("x"), Types: sdk.Clear[[]string](), Schedule: sdk.Clear[[]int](),
		Headers: sdk.Set(map[string]*string{"X-Key": nil})}, sdk.IfMatch(e.ETag))
	if err != nil || e.Description != "x" || !slices.Equal(e.Types, []string{"**"}) || e.Schedule != nil || len(e.HeaderNames) != 0 || e.ETag != `"2"` {
		t.Errorf("changed %+v, %v", e, err)
	}
	var p *sdk.Problem
	if _, err := c.UpdateEndpoint(ctx, e.ID, sdk.EndpointPatch{}, sdk.IfMatch(`"1"`)); !errors.Is(err, sdk.ErrPreconditionFailed) || !errors.As(err, &p) || p.ETag != `"2"` {
		t.Errorf("a stale change: %v", err)
	}
	if read, err := c.GetEndpoint(ctx, "uid:main"); err != nil || !reflect.DeepEqual(read, e) {
		t.Errorf("read %+v, %v, want %+v", read, err, e)
	}
	if all := collect(t, c.ListEndpoints(ctx, sdk.EndpointFilter{States: []sdk.EndpointState{sdk.EndpointEnabled}, Health: "unverified", UID: "main"})); len(all) != 1 {
		t.Errorf("listed %+v", all)
	}
	if _, _, err := c.CreateEndpoint(ctx, sdk.EndpointCreate{URL: "http://localhost/"}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("created a bad one: %v", err)
	}
	none := time.Duration(0)
	rotated, next, err := c.RotateSecret(ctx, e.ID, sdk.Rotation{}, sdk.IfMatch(e.ETag))
	if err != nil || next == secret || !strings.HasPrefix(next, "whsec_") || len(rotated.Secrets) != 2 || rotated.ETag != `"3"` {
		t.Errorf("rotated %+v, %v", rotated, err)
	}
	if rotated, next, err = c.RotateSecret(ctx, e.ID, sdk.Rotation{Secret: secret, Grace: &none}); err != nil || next != secret || len(rotated.Secrets) != 2 {
		t.Errorf("rotated back %+v, %v", rotated, err)
	}
	if ended, err := c.EndPreviousSecrets(ctx, e.ID); err != nil || len(ended.Secrets) != 1 {
		t.Errorf("ended %+v, %v", ended, err)
	}
	if err := c.DeleteEndpoint(ctx, e.ID, sdk.IfMatch(`"1"`)); !errors.Is(err, sdk.ErrPreconditionFailed) {
		t.Errorf("a stale delete: %v", err)
	}
	if err := c.DeleteEndpoint(ctx, e.ID); err != nil {
		t.Error(err)
	}
	if err := c.DeleteEndpoint(ctx, e.ID); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestSDKReadsDeliveries(t *testing.T) {
	t.Parallel()
	g := setup(t)
	c, _ := g.clients(t)
	ctx := t.Context()
	event := g.event(t, g.acme, `{"type":"a.b","subject":"s","data":1}`)
	ep := g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in"}`)
	id, attempt := g.attempted(t, event, ep)
	d, err := c.GetDelivery(ctx, id)
	if err != nil || d.State != sdk.DeliverySucceeded || d.LastHTTPStatus != 200 || d.Attempts != 2 || d.EndedAt == nil {
		t.Errorf("read %+v, %v", d, err)
	}
	filter := sdk.DeliveryFilter{EventID: event, EndpointID: ep, Types: []string{"a.*"}, Subject: "s", States: []sdk.DeliveryState{sdk.DeliverySucceeded, sdk.DeliveryHeld},
		HTTPStatus: "2xx", Classes: []string{"ok"}, Since: d.AcceptedAt.Add(-time.Second), Until: d.AcceptedAt.Add(time.Second), PageSize: 1}
	if all := collect(t, c.ListDeliveries(ctx, filter)); len(all) != 1 || !reflect.DeepEqual(all[0], d) {
		t.Errorf("listed %+v", all)
	}
	attempts := collect(t, c.ListAttempts(ctx, id))
	if len(attempts) != 2 || attempts[0].Number != 2 || attempts[1].Reason != "connect_refused" || attempts[1].Sent != "no" || *attempts[1].Timings.Total != 700 {
		t.Errorf("listed %+v", attempts)
	}
	a, err := c.GetAttempt(ctx, attempt)
	if err != nil || a.Request == nil || a.Response == nil {
		t.Fatalf("read %+v, %v", a, err)
	}
	if body, err := a.Response.Bytes(); err != nil || string(body) != "\x00\xff" {
		t.Errorf("the answer's body is %q, %v", body, err)
	}
}

func TestSDKManagesTenantsAndTokens(t *testing.T) {
	t.Parallel()
	g := setup(t)
	c, admin := g.clients(t)
	ctx := t.Context()
	made, err := admin.CreateTenant(ctx, sdk.TenantCreate{Name: "Carol", UID: "carol", Metadata: map[string]string{"a": "1"}})
	if err != nil || made.ETag != `"1"` || made.State != sdk.TenantActive {
		t.Fatalf("created %+v, %v", made, err)
	}
	changed, err := admin.UpdateTenant(ctx, "uid:carol", sdk.TenantPatch{Name: sdk.Set("C"), UID: sdk.Clear[string](), State: sdk.Set(sdk.TenantSuspended), Metadata: sdk.Clear[map[string]*string]()}, sdk.IfMatch(made.ETag))
	if err != nil || changed.Name != "C" || changed.UID != "" || changed.SuspendedAt == nil || len(changed.Metadata) != 0 {
		t.Errorf("changed %+v, %v", changed, err)
	}
	if read, err := admin.GetTenant(ctx, made.ID); err != nil || !reflect.DeepEqual(read, changed) {
		t.Errorf("read %+v, %v", read, err)
	}
	if all := collect(t, admin.ListTenants(ctx, sdk.TenantSuspended)); len(all) != 1 {
		t.Errorf("listed %+v", all)
	}
	first, text, err := admin.CreateTenantToken(ctx, made.ID, sdk.TokenCreate{Name: "owner", Role: "owner", ExpiresInSeconds: 3600})
	if err != nil || text == "" || len(first.Scopes) != 12 {
		t.Fatalf("created %+v, %v", first, err)
	}
	if all := collect(t, admin.ListTenantTokens(ctx, made.ID)); len(all) != 1 || all[0].ID != first.ID {
		t.Errorf("listed %+v", all)
	}
	theirs, err := sdk.New(g.public.URL, text)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := theirs.GetWhoami(ctx); err != nil || who.Tenant.ID != made.ID || who.Tenant.State != sdk.TenantSuspended || who.Limits.Page != 200 {
		t.Errorf("whoami says %+v, %v", who, err)
	}
	if _, err := theirs.PostEvent(ctx, sdk.EventPost{Type: "a"}); !errors.Is(err, sdk.ErrForbidden) {
		t.Errorf("a suspended tenant posted: %v", err)
	}
	if err := admin.RevokeToken(ctx, first.ID); err != nil {
		t.Error(err)
	}
	if _, err := theirs.GetWhoami(ctx); !errors.Is(err, sdk.ErrUnauthorized) {
		t.Errorf("a revoked token: %v", err)
	}

	second, _, err := c.CreateToken(ctx, sdk.TokenCreate{Name: "n", Scopes: []string{"events:read"}, EventScopes: []string{"p/*"}})
	if err != nil || !slices.Equal(second.EventScopes, []string{"p/*"}) {
		t.Fatalf("created %+v, %v", second, err)
	}
	if all := collect(t, c.ListTokens(ctx)); len(all) != 2 || all[0].ID != second.ID {
		t.Errorf("listed %+v", all)
	}
	if err := c.RevokeToken(ctx, second.ID); err != nil {
		t.Error(err)
	}
	if err := c.RevokeToken(ctx, first.ID); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("revoked another tenant's: %v", err)
	}
	if keys, err := c.GetJWKS(ctx); err != nil || !json.Valid(keys) {
		t.Errorf("the keys are %s, %v", keys, err)
	}
}

// The SDK's types have the fields of the contract: none missing, none too many.
func TestSDKTypesAreTheContracts(t *testing.T) {
	t.Parallel()
	schemas := readContract(t).doc.Components.Schemas
	for name, value := range map[string]any{
		"EventPost": sdk.EventPost{}, "Receipt": sdk.Receipt{}, "Event": sdk.Event{}, "Fanout": sdk.Fanout{}, "Delivery": sdk.Delivery{}, "Attempt": sdk.Attempt{},
		"Timings": sdk.Timings{}, "AttemptRequest": sdk.AttemptRequest{}, "AttemptResponse": sdk.AttemptResponse{}, "Endpoint": sdk.Endpoint{},
		"EndpointCreate": sdk.EndpointCreate{}, "EndpointPatch": sdk.EndpointPatch{}, "EndpointHealth": sdk.EndpointHealth{}, "SecretInfo": sdk.SecretInfo{},
		"Token": sdk.Token{}, "TokenCreate": sdk.TokenCreate{}, "Whoami": sdk.Whoami{}, "Limits": sdk.Limits{}, "Tenant": sdk.Tenant{}, "TenantCreate": sdk.TenantCreate{},
		"TenantPatch": sdk.TenantPatch{}, "Problem": sdk.Problem{}, "FieldError": sdk.FieldError{},
	} {
		var has []string
		for i := range reflect.TypeOf(value).NumField() {
			tag, _, _ := strings.Cut(reflect.TypeOf(value).Field(i).Tag.Get("json"), ",")
			if tag != "-" {
				has = append(has, tag)
			}
		}
		if name == "EventPost" {
			has = append(has, "data") // written by hand
		}
		var wants []string
		for field := range properties(schemas[name].Value) {
			wants = append(wants, field)
		}
		slices.Sort(has)
		slices.Sort(wants)
		if !slices.Equal(has, wants) {
			t.Errorf("%s has the fields\n%v, the contract\n%v", name, has, wants)
		}
	}
}

// Every operation on the public port that is for programs has a method of its name.
func TestSDKHasEveryOperation(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	methods := map[string]bool{}
	for _, of := range []any{(*sdk.Client)(nil), (*sdk.Admin)(nil)} {
		for i := range reflect.TypeOf(of).NumMethod() {
			methods[strings.ToLower(reflect.TypeOf(of).Method(i).Name)] = true
		}
	}
	renamed := map[string]string{"revokeanytoken": "revoketoken"}
	for _, o := range c.operations {
		if o.ops() || o.method == http.MethodGet && o.audience(c.doc) == "" && o.OperationID != "getJwks" {
			continue
		}
		name := strings.ToLower(o.OperationID)
		if other := renamed[name]; other != "" {
			name = other
		}
		if !methods[name] {
			t.Errorf("no method of the SDK is %s", o.OperationID)
		}
	}
}
