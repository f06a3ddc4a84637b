package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/api"
	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	g := setup(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/events/", "/v2/events", "/v1/event", "/admin/v1", "/V1/events", "/v1//events", "/v1/events/x/y"} {
		g.do(t, request{method: "GET", path: path, token: g.acme.token}).want(t, 404, "not_found")
	}
	for path, allow := range map[string]string{"/v1/events": "GET, POST", "/v1/endpoints/x": "DELETE, GET, PATCH", "/v1/whoami": "GET", "/v1/tokens/x": "DELETE"} {
		a := g.do(t, request{method: "PUT", path: path, token: g.acme.token, body: "{}"}).want(t, 405, "method_not_allowed")
		methods := slices.DeleteFunc(strings.Split(a.header.Get("Allow"), ", "), func(m string) bool { return m == "OPTIONS" || m == "HEAD" })
		slices.Sort(methods)
		if got := strings.Join(methods, ", "); got != allow {
			t.Errorf("%s allows %q, want %q", path, got, allow)
		}
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	g := setup(t)
	e := g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in"}`)
	for path, token := range map[string]string{"/v1/endpoints/" + e: g.acme.token, "/v1/whoami": g.acme.token, "/openapi.yaml": "", "/problems": ""} {
		got := g.get(t, token, path).want(t, 200, "")
		head := g.do(t, request{method: "HEAD", path: path, token: token})
		if head.status != 200 || len(head.body) != 0 || head.header.Get("Content-Type") != got.header.Get("Content-Type") || head.header.Get("ETag") != got.header.Get("ETag") {
			t.Errorf("HEAD %s: %d, %d bytes, %v", path, head.status, len(head.body), head.header)
		}
	}
	if a := g.do(t, request{method: "HEAD", path: "/v1/events"}); a.status != 401 {
		t.Errorf("without a token: %d", a.status)
	}
}

func TestPortsAreApart(t *testing.T) {
	t.Parallel()
	g := setup(t)
	for _, address := range []string{g.public.URL + "/livez", g.public.URL + "/readyz", g.ops.URL + "/v1/events", g.ops.URL + "/openapi.yaml"} {
		res, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 404 {
			t.Errorf("%s answers %d", address, res.StatusCode)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	g := setup(t)
	given := func(values ...string) string {
		a := g.do(t, request{method: "GET", path: "/v1/whoami", header: http.Header{"X-Request-Id": values}})
		var problem api.Problem
		a.into(t, &problem)
		id := a.header.Get("X-Request-Id")
		if problem.RequestID != id || problem.Instance != "urn:sallyport:request:"+id {
			t.Errorf("the problem of request %s is that of %s", id, problem.RequestID)
		}
		return id
	}
	for _, good := range []string{"a", "A.b_c-9", strings.Repeat("x", 128)} {
		if got := given(good); got != good {
			t.Errorf("the request id %q became %q", good, got)
		}
	}
	seen := map[string]bool{}
	for _, bad := range [][]string{nil, {""}, {"a b"}, {"a/b"}, {"ä"}, {"<script>"}, {strings.Repeat("x", 129)}, {"a", "b"}} {
		got := given(bad...)
		if slices.Contains(bad, got) || len(got) < 20 || seen[got] {
			t.Errorf("the request ids %q became %q", bad, got)
		}
		seen[got] = true
	}
	event := g.do(t, request{method: "POST", path: "/v1/events", token: g.acme.token, body: `{"type":"a","data":1}`, header: http.Header{"X-Request-Id": {"mine"}}})
	if read := g.get(t, g.acme.token, event.header.Get("Location")); !strings.Contains(string(read.body), `"request_id":"mine"`) {
		t.Errorf("the event does not name its request: %s", read.body)
	}
}

func TestTraceContextIsKept(t *testing.T) {
	t.Parallel()
	g := setup(t)
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for given, want := range map[string]bool{good: true, strings.ToUpper(good): false, good[:54]: false, "01" + good[2:]: false, good + "-x": false,
		"00-" + strings.Repeat("0", 32) + good[35:]: false, good[:36] + strings.Repeat("0", 16) + good[52:]: false, strings.Replace(good, "-", "_", 3): false} {
		g.do(t, request{method: "POST", path: "/v1/events", token: g.acme.token, body: `{"type":"a","data":1}`, header: http.Header{"Traceparent": {given}}}).want(t, 202, "")
		var kept *string
		if err := g.db.QueryRow(t.Context(), `select trace_parent from gateway.events order by seq desc limit 1`).Scan(&kept); err != nil {
			t.Fatal(err)
		}
		if (kept != nil) != want || want && *kept != given {
			t.Errorf("of the traceparent %q was kept %v", given, kept)
		}
	}
}

func TestSafeHeaders(t *testing.T) {
	t.Parallel()
	g := setup(t)
	for _, r := range []request{{method: "GET", path: "/v1/whoami", token: g.acme.token}, {method: "GET", path: "/none"}, {method: "GET", path: "/problems"}, {method: "GET", path: "/livez"}} {
		h := g.do(t, r).header
		if h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Cache-Control") == "" ||
			h.Get("Referrer-Policy") != "no-referrer" || h.Get("Server") != "" {
			t.Errorf("%s answers with %v", r.path, h)
		}
	}
}

// Every operation, with the database away: 503 with Retry-After where it is needed, and no text of its error.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	g := setup(t)
	lost := away(t)
	broken := g.config
	broken.Authority = tenant.NewAuthority(tenant.AuthorityConfig{Pool: lost, Keyring: g.keyring})
	g.config = broken
	g.restart(t)
	for _, o := range g.contract.operations {
		if o.audience(g.contract.doc) == "" && o.OperationID != "getJwks" {
			continue
		}
		token := g.acme.token
		if o.audience(g.contract.doc) == "operatorToken" {
			token = g.operator
		}
		g.unavailable(t, request{method: o.method, path: fillPath(o.path, "uid:x"), token: token, body: exampleBody(t, o)})
	}

	// The token can be judged, the rest not: as when the database goes away between the two.
	working := g.authority(nil)
	g.config.Authority = working
	g.config.Tenants, g.config.Endpoints = tenant.NewTenants(lost), endpoint.NewStore(lost, g.keyring, egress.Policy{}, 20)
	g.config.Outbox, g.config.Events, g.config.Deliveries = outbox.NewWriter(lost, nil), outbox.NewReader(lost), delivery.NewReader(lost)
	g.config.Keys = idempotency.New(lost, g.keyring, 0)
	g.restart(t)
	for _, path := range []string{"/v1/events", "/v1/deliveries", "/v1/endpoints", "/v1/whoami"} {
		g.unavailable(t, request{method: "GET", path: path, token: g.acme.token})
	}
	g.unavailable(t, request{method: "POST", path: "/v1/events", token: g.acme.token, body: `{"type":"a","data":1}`})
	g.unavailable(t, request{method: "POST", path: "/v1/endpoints", token: g.acme.token, body: `{"url":"https://hooks.example.com/"}`})

	errors := 0
	for _, line := range g.log.lines(t) {
		if text, _ := line["error"].(string); line["level"] == "ERROR" && text != "" {
			errors++
		}
	}
	if errors < 30 {
		t.Errorf("the log tells of %d errors", errors)
	}
}

func (g *gateway) unavailable(t *testing.T, r request) {
	t.Helper()
	a := g.do(t, r).want(t, 503, "unavailable")
	a.lacks(t, "127.0.0.1")
	a.lacks(t, "connect")
	if a.header.Get("Retry-After") == "" {
		t.Errorf("%s %s: no Retry-After", r.method, r.path)
	}
}

// restart puts another server in place of the one that runs.
func (g *gateway) restart(t *testing.T) {
	t.Helper()
	server, err := api.New(g.config)
	if err != nil {
		t.Fatal(err)
	}
	g.server = server
	g.public.Config.Handler, g.ops.Config.Handler = server.Public(), server.Ops()
}

// A database that does not answer in time is away, too; and a request does not hang longer than it may.
func TestRequestsEndInTime(t *testing.T) {
	t.Parallel()
	g := setup(t, func(c *api.Config) { c.RequestTimeout = 200 * time.Millisecond })
	g.get(t, g.acme.token, "/v1/events").want(t, 200, "") // its token is known from now on
	tx, err := g.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `lock table gateway.events`); err != nil {
		t.Fatal(err)
	}
	g.unavailable(t, request{method: "POST", path: "/v1/events", token: g.acme.token, body: `{"type":"a","data":1}`})
}

func TestPanicsAreAnsweredAndLoggedOnce(t *testing.T) {
	t.Parallel()
	g := setup(t, func(c *api.Config) { c.Outbox = nil })
	a := g.post(t, g.acme.token, "/v1/events", `{"type":"a","data":1}`).want(t, 500, "internal")
	a.lacks(t, "nil pointer")
	a.lacks(t, "goroutine")
	told := 0
	for _, line := range g.log.lines(t) {
		if text, _ := line["error"].(string); strings.Contains(text, "nil pointer") {
			told++
			if line["request_id"] != a.header.Get("X-Request-Id") || !strings.Contains(text, "postEvent") {
				t.Errorf("the log says %v", line)
			}
		}
	}
	if told != 1 {
		t.Errorf("the panic was logged %d times", told)
	}
	g.get(t, g.acme.token, "/v1/events").want(t, 200, "")
}

func TestUnknownErrorsAreKeptFromTheClient(t *testing.T) {
	t.Parallel()
	g := setup(t)
	if _, err := g.db.Exec(t.Context(), `alter table gateway.events rename column subject to s3cr3t_column`); err != nil {
		t.Fatal(err)
	}
	for _, r := range []request{{method: "GET", path: "/v1/events"}, {method: "GET", path: "/v1/events/evt_00000000000000000000000001"},
		{method: "POST", path: "/v1/events", body: `{"type":"a","data":1}`}} {
		r.token = g.acme.token
		a := g.do(t, r).want(t, 500, "internal")
		a.lacks(t, "subject")
		a.lacks(t, "detail")
	}
	if text := fmt.Sprint(g.log.lines(t)); strings.Count(text, "column") < 3 {
		t.Errorf("the log does not tell what was wrong: %s", text)
	}
}

// One line a request: what it was and whose, and nothing that is secret.
func TestLog(t *testing.T) {
	t.Parallel()
	g := setup(t)
	event := g.event(t, g.acme, `{"type":"a","subject":"s3cr3t","data":"s3cr3t"}`)
	g.get(t, g.acme.token, "/v1/events/"+event+"?s3cr3t=s3cr3t").want(t, 400, "unknown_parameter")
	g.get(t, "s3cr3t", "/v1/events?subject=s3cr3t").want(t, 401, "token_malformed")
	g.get(t, g.acme.token, "/s3cr3t").want(t, 404, "not_found")
	g.get(t, g.operator, "/admin/v1/tenants").want(t, 200, "")
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		g.get(t, "", path)
	}
	var got []string
	for _, line := range g.log.lines(t) {
		got = append(got, fmt.Sprint(line["level"], line["method"], line["route"], line["status"], line["code"], line["tenant_id"] != nil, line["token_id"] != nil))
		for _, field := range []string{"duration", "request_id"} {
			if line[field] == nil {
				t.Errorf("the line %v has no %s", line, field)
			}
		}
	}
	want := []string{
		"INFO POST /v1/events 202 <nil> true true",
		"INFO GET /v1/events/{event_id} 400 unknown_parameter true true",
		"INFO GET /v1/events 401 token_malformed false false",
		"INFO GET <nil> 404 not_found false false",
		"INFO GET /admin/v1/tenants 200 <nil> false true",
	}
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	if len(got) != len(want) {
		t.Fatalf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text := fmt.Sprint(g.log.lines(t))
	for _, secret := range []string{"s3cr3t", g.acme.token, g.operator, event} {
		if strings.Contains(text, secret) {
			t.Errorf("the log tells %q", secret)
		}
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	ok := true
	g := setup(t, func(c *api.Config) {
		c.Checks = []api.Check{
			{Name: "database", Probe: func(context.Context) error { return nil }},
			{Name: "schema", Probe: func(ctx context.Context) error {
				if _, bounded := ctx.Deadline(); !bounded {
					return errors.New("no time limit")
				}
				if ok {
					return nil
				}
				return errors.New("2 migrations are missing; run: gateway migrate up")
			}},
		}
	})
	ready := func(path string, status int) string {
		var health api.Health
		g.get(t, "", path).want(t, status, "").into(t, &health)
		text := string(health.Status)
		if health.Checks != nil {
			for _, c := range *health.Checks {
				text += fmt.Sprintf(" %s:%v", c.Name, c.Ok)
			}
		}
		return text
	}
	for path, want := range map[string]string{"/readyz": "ok", "/readyz?verbose": "ok database:true schema:true accepting:true", "/readyz?verbose=1": "ok database:true schema:true accepting:true", "/readyz?verbose=false": "ok"} {
		if got := ready(path, 200); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	g.get(t, "", "/readyz?verbose=perhaps").want(t, 400, "parameter_invalid")
	ok = false
	if got := ready("/readyz", 503); got != "failing schema:false" {
		t.Errorf("with a check that fails: %s", got)
	}
	ok = true
	g.server.Drain()
	if got := ready("/readyz", 503); got != "failing accepting:false" {
		t.Errorf("while draining: %s", got)
	}
	g.get(t, g.acme.token, "/v1/whoami").want(t, 200, "")
}
