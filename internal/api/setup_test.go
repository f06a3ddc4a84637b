package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/api"
	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// gateway is the real API on a database of its own. Every answer that a test gets of it is held to the contract.
type gateway struct {
	db        *pgxpool.Pool
	keyring   *signing.Keyring
	config    api.Config
	server    *api.Server
	contract  *contract
	public    *httptest.Server
	ops       *httptest.Server
	log       *logged
	operator  string // the text of an operator's token
	acme, bob member
}

// member is a tenant with a token that may do everything.
type member struct {
	id     uuid.UUID
	token  string
	caller tenant.Caller
}

// logged is what the server logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// lines returns the log as records.
func (l *logged) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for line := range bytes.Lines(l.text.Bytes()) {
		var record map[string]any
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("the log holds %q: %v", line, err)
		}
		all = append(all, record)
	}
	return all
}

func setup(t *testing.T, change ...func(*api.Config)) *gateway {
	t.Helper()
	ctx := t.Context()
	g := &gateway{db: postgrestest.New(t), contract: readContract(t), log: new(logged)}
	key, err := signing.NewKey("test")
	if err != nil {
		t.Fatal(err)
	}
	if g.keyring, err = signing.ParseKeyring(key); err != nil {
		t.Fatal(err)
	}
	g.config = api.Config{
		Authority: g.authority(nil), Tenants: tenant.NewTenants(g.db),
		Endpoints: endpoint.NewStore(g.db, g.keyring, egress.Policy{}, 20), EndpointLimit: 20,
		Outbox: outbox.NewWriter(g.db, nil), Events: outbox.NewReader(g.db), Deliveries: delivery.NewReader(g.db),
		Keys: idempotency.New(g.db, g.keyring, 0), KeyWait: 200 * time.Millisecond,
		Log: slog.New(slog.NewJSONHandler(g.log, nil)),
	}
	authority := g.config.Authority
	if err := authority.EnsureKey(ctx); err != nil {
		t.Fatal(err)
	}
	_, g.operator = g.issue(t, authority, tenant.TokenSpec{Admin: true, Role: "operator"})
	g.acme, g.bob = g.member(t, "Acme"), g.member(t, "Bob")
	for _, c := range change {
		c(&g.config)
	}
	if g.server, err = api.New(g.config); err != nil {
		t.Fatal(err)
	}
	g.public, g.ops = httptest.NewServer(g.server.Public()), httptest.NewServer(g.server.Ops())
	t.Cleanup(g.public.Close)
	t.Cleanup(g.ops.Close)
	return g
}

// authority is one of the tokens of this gateway, with a clock of its own.
func (g *gateway) authority(now func() time.Time) *tenant.Authority {
	return tenant.NewAuthority(tenant.AuthorityConfig{Pool: g.db, Keyring: g.keyring, Now: now})
}

func (g *gateway) issue(t *testing.T, a *tenant.Authority, spec tenant.TokenSpec) (tenant.Token, string) {
	t.Helper()
	if spec.Name == "" {
		spec.Name = "test"
	}
	token, text, err := a.Issue(t.Context(), spec)
	if err != nil {
		t.Fatalf("issue a token: %v", err)
	}
	return token, text
}

func (g *gateway) member(t *testing.T, name string) member {
	t.Helper()
	made, err := g.config.Tenants.Create(t.Context(), tenant.Spec{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	token, text := g.issue(t, g.config.Authority, tenant.TokenSpec{Tenant: made.ID, Role: "owner"})
	return member{id: made.ID, token: text, caller: tenant.Caller{Tenant: made.ID, Token: token.ID, Subject: token.Subject, Scopes: token.Scopes}}
}

// scoped is a token of a tenant with some scopes.
func (g *gateway) scoped(t *testing.T, m member, scopes ...string) string {
	t.Helper()
	_, text := g.issue(t, g.config.Authority, tenant.TokenSpec{Tenant: m.id, Scopes: scopes})
	return text
}

// request is a request to be made.
type request struct {
	method, path string
	token        string
	body         string
	header       http.Header // added to those that follow from the above
	stream       io.Reader   // in place of the body
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	closed bool // the connection is, after it
}

// do makes a request and holds its answer to the contract.
func (g *gateway) do(t *testing.T, r request) answer {
	t.Helper()
	base := g.public.URL
	if o := g.contract.find(r.method, r.path); o != nil && o.ops() {
		base = g.ops.URL
	}
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	if r.stream != nil {
		body = r.stream
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, base+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: read the answer: %v", r.method, r.path, err)
	}
	a := answer{res.StatusCode, res.Header, text, res.Close}
	g.contract.hold(t, req, a)
	return a
}

// want checks the status, and the code if the answer is a problem.
func (a answer) want(t *testing.T, status int, code string) answer {
	t.Helper()
	if a.status != status || code != a.code() {
		t.Fatalf("answered %d %q, want %d %q: %s", a.status, a.code(), status, code, a.body)
	}
	return a
}

// code is the code of the problem that the answer is, or empty.
func (a answer) code() string {
	var problem api.Problem
	if a.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.body, &problem) != nil {
		return ""
	}
	return problem.Code
}

// into decodes the answer.
func (a answer) into(t *testing.T, value any) {
	t.Helper()
	if err := json.Unmarshal(a.body, value); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

func (g *gateway) get(t *testing.T, token, path string) answer {
	t.Helper()
	return g.do(t, request{method: "GET", path: path, token: token})
}

func (g *gateway) post(t *testing.T, token, path, body string) answer {
	t.Helper()
	return g.do(t, request{method: "POST", path: path, token: token, body: body})
}

// event posts an event and returns its id.
func (g *gateway) event(t *testing.T, m member, body string) string {
	t.Helper()
	var receipt api.Receipt
	g.post(t, m.token, "/v1/events", body).want(t, 202, "").into(t, &receipt)
	return receipt.ID
}

// endpoint creates an endpoint and returns its id.
func (g *gateway) endpoint(t *testing.T, m member, body string) string {
	t.Helper()
	var made api.EndpointCreated
	g.post(t, m.token, "/v1/endpoints", body).want(t, 201, "").into(t, &made)
	return made.ID
}

// rows counts what is stored.
func (g *gateway) rows(t *testing.T) (count int) {
	t.Helper()
	err := g.db.QueryRow(t.Context(), `select (select count(*) from gateway.events) + (select count(*) from gateway.endpoints)
		+ (select count(*) from gateway.tenants) + (select count(*) from gateway.tokens)`).Scan(&count)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// attempted stores a delivery of an event for an endpoint with two attempts, as the worker leaves them: one failed, and
// one went well. Nothing is sent.
func (g *gateway) attempted(t *testing.T, event, endpoint string) (deliveryID, attemptID string) {
	t.Helper()
	eventID, err := typeid.Parse(typeid.Event, event)
	if err != nil {
		t.Fatal(err)
	}
	endpointID, err := typeid.Parse(typeid.Endpoint, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var d, a uuid.UUID
	err = errors.Join(
		g.db.QueryRow(t.Context(), `
			insert into gateway.deliveries (event_id, endpoint_id, id, tenant_id, type, subject, accepted_at, state, attempts, tries,
				last_class, last_status, last_attempt_at, ended_at)
			select id, $2, gateway.uuid_v7_beside(id), tenant_id, type, subject, accepted_at, 'succeeded', 2, 2, 'ok', 200, now(), now()
			from gateway.events where id = $1
			returning id`, eventID, endpointID).Scan(&d),
		g.db.QueryRow(t.Context(), `
			insert into gateway.attempts (event_id, endpoint_id, number, id, tenant_id, process_id, try, trigger, outcome, class, reason,
				sent, status, started_at, dns_us, connect_us, first_byte_us, total_us, reused, protocol, response_headers, response_body,
				next_attempt_at)
			select e.id, $2, n, gateway.uuid_v7_beside(e.id), e.tenant_id, gen_random_uuid(), n, 'event',
				case n when 1 then 'failed' else 'succeeded' end, case n when 1 then 'connect' else 'ok' end,
				case n when 1 then 'connect_refused' end, case n when 1 then 'no' else 'yes' end, case n when 2 then 200 end,
				now(), 100, 200, 300, 700, false, 'HTTP/1.1', case n when 2 then '{"Content-Type": ["text/plain"]}'::jsonb end,
				case n when 2 then '\x00ff'::bytea end, case n when 1 then now() end
			from gateway.events e, generate_series(1, 2) n where e.id = $1
			order by n
			returning id`, eventID, endpointID).Scan(&a))
	if err != nil {
		t.Fatal(err)
	}
	err = g.db.QueryRow(t.Context(), `select id from gateway.attempts where event_id = $1 and endpoint_id = $2 and number = 2`,
		eventID, endpointID).Scan(&a)
	if err != nil {
		t.Fatal(err)
	}
	return typeid.Format(typeid.Delivery, d), typeid.Format(typeid.Attempt, a)
}

// away is a pool whose database cannot be reached.
func away(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
