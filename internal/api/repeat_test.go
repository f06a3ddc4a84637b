package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/api"
	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/tenant"
	sdk "github.com/sallyport-dev/sallyport/sdk/go"
)

// through is a configuration whose POSTs go to the database through a pool alone.
func (g *gateway) through(pool *pgxpool.Pool) api.Config {
	c := g.config
	c.Tenants, c.Endpoints = tenant.NewTenants(pool), endpoint.NewStore(pool, g.keyring, egress.Policy{}, 20)
	c.Authority = tenant.NewAuthority(tenant.AuthorityConfig{Pool: pool, Keyring: g.keyring})
	c.Outbox, c.Keys = outbox.NewWriter(pool, nil), idempotency.New(pool, g.keyring, 0)
	return c
}

func open(t *testing.T, db *pgxpool.Pool, connections int32) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: postgrestest.URL(db), MaxConns: connections})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Two servers on one database, each with a pool of its own, stand for two processes: they share nothing else.
func TestOneKeyAtTwoServers(t *testing.T) {
	t.Parallel()
	g := setup(t, func(c *api.Config) { c.KeyWait = 0 }) // its own default
	second, err := api.New(g.through(open(t, g.db, 10)))
	if err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(second.Public())
	t.Cleanup(other.Close)
	urls := []string{g.public.URL, other.URL}

	for name, path := range map[string]string{"an event": "/v1/events", "a batch": "/v1/events/batch"} {
		t.Run(name, func(t *testing.T) {
			typ := "raced." + strings.Fields(name)[1]
			body := `{"type":"` + typ + `","data":1}`
			if strings.HasSuffix(path, "batch") {
				body = `{"events":[` + body + `]}`
			}
			answers := make(chan string, 50)
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, urls[i%2]+path, strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+g.acme.token)
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Idempotency-Key", typ)
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					defer res.Body.Close()
					text, err := io.ReadAll(res.Body)
					if err != nil {
						t.Error(err)
					}
					if res.StatusCode != http.StatusAccepted {
						t.Errorf("answered %d: %s", res.StatusCode, text)
					}
					answers <- string(text)
				}()
			}
			wg.Wait()
			close(answers)
			first := <-answers
			for a := range answers {
				if a != first {
					t.Errorf("answers %s and %s", first, a)
				}
			}
			var n int
			if err := g.db.QueryRow(t.Context(), `select count(*) from gateway.events where type = $1`, typ).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d events, %v", n, err)
			}
		})
	}
}

// A stored answer may show a secret. Who could not have made the request, or does not hold what it granted, must not get
// that by sending it again.
func TestStoredSecretsAreForTheTokenThatAsked(t *testing.T) {
	t.Parallel()
	g := setup(t)
	send := func(token, path, body string) answer {
		return g.do(t, request{method: "POST", path: path, token: token, body: body, header: http.Header{"Idempotency-Key": {"setup" + path}}})
	}
	ep := g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in"}`)
	for path, op := range map[string]struct{ scope, body string }{
		"/v1/tokens":    {"tokens:write", `{"name":"all","role":"owner"}`},
		"/v1/endpoints": {"endpoints:write", `{"url":"https://hooks.example.com/new"}`},
		"/v1/endpoints/" + ep + "/secrets/rotate": {"endpoints:secret", `{}`},
	} {
		weak := g.scoped(t, g.acme, op.scope)
		send(g.acme.token, path, op.body)
		refused := send(weak, path, op.body).want(t, 422, "idempotency_key_reused")
		if text := string(refused.body); strings.Contains(text, "whsec_") || strings.Contains(text, "eyJ") {
			t.Errorf("POST %s shows it: %s", path, text)
		}
		if again := send(g.acme.token, path, op.body); again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("POST %s: the token that asked gets %d %s", path, again.status, again.body)
		}
	}
	// A receipt is no secret: the next token of a publisher gets it.
	first := send(g.acme.token, "/v1/events", `{"type":"a","data":1}`).want(t, 202, "")
	again := send(g.scoped(t, g.acme, "events:write"), "/v1/events", `{"type":"a","data":1}`).want(t, 202, "")
	if string(first.body) != string(again.body) {
		t.Errorf("%s, then %s", first.body, again.body)
	}
}

// A request that needs a second connection while it holds one can wait for ever, for others that do the same. So each
// gets along with a pool of one.
func TestPostsNeedOneConnection(t *testing.T) {
	t.Parallel()
	g := setup(t)
	g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in","uid":"main"}`)
	g.post(t, g.operator, "/admin/v1/tenants", `{"name":"Carol","uid":"carol"}`).want(t, 201, "")
	g.event(t, g.acme, `{"type":"a","uid":"there","data":1}`)
	g.config = g.through(open(t, g.db, 1))
	g.restart(t)
	bodies := map[string][]string{
		"postEvent":         {`{"type":"a","data":1}`, `{"type":"a","uid":"there","data":1}`},
		"postEvents":        {`{"events":[{"type":"a","data":1},{"type":"a","uid":"there","data":1}]}`},
		"createEndpoint":    {`{"url":"https://hooks.example.com/b","uid":"second"}`},
		"rotateSecret":      {`{}`},
		"createToken":       {`{"name":"a","role":"viewer"}`},
		"createTenant":      {`{"name":"Dave","uid":"dave"}`},
		"createTenantToken": {`{"name":"a","role":"viewer"}`},
	}
	for _, o := range g.contract.operations {
		if o.method != http.MethodPost {
			continue
		}
		token, path := g.acme.token, strings.NewReplacer("{endpoint_id}", "uid:main", "{tenant_id}", "uid:carol").Replace(o.path)
		if o.audience(g.contract.doc) == "operatorToken" {
			token = g.operator
		}
		if len(bodies[o.OperationID]) == 0 {
			t.Errorf("this test has no body for %s", o.OperationID)
		}
		for i, body := range bodies[o.OperationID] {
			for range 2 {
				key := http.Header{"Idempotency-Key": {fmt.Sprintf("%s-%d", o.OperationID, i)}}
				if a := g.do(t, request{method: "POST", path: path, token: token, body: body, header: key}); a.status > 299 {
					t.Errorf("%s answers %d %s", o.OperationID, a.status, a.body)
				}
			}
		}
	}
}

// Batches that hold the same uids in opposite orders, many at once, are all answered, and each uid is one event. (That they
// never deadlock is held by outbox.TestAcceptTx: here a deadlock would be tried again.)
func TestCrossedBatches(t *testing.T) {
	t.Parallel()
	g := setup(t)
	c, _ := g.clients(t)
	var wg sync.WaitGroup
	for round := range 20 {
		uids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for side := range 2 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				var events []sdk.EventPost
				for i := range uids {
					k := i
					if side == 1 {
						k = len(uids) - 1 - i
					}
					events = append(events, sdk.EventPost{Type: "crossed.x", UID: uids[k] + "-" + string(rune('a'+round)), Data: 1})
				}
				results, err := c.PostEvents(t.Context(), events, sdk.BatchOptions{})
				if err != nil {
					t.Errorf("post: %v", err)
				}
				for _, r := range results {
					if r.Problem != nil || r.Receipt.ID == "" {
						t.Errorf("%+v", r)
					}
				}
			}()
		}
	}
	wg.Wait()
	var n int
	if err := g.db.QueryRow(t.Context(), `select count(*) from gateway.events where type = 'crossed.x'`).Scan(&n); err != nil || n != 160 {
		t.Errorf("%d events, %v", n, err)
	}
}

func TestSDKPostsBatches(t *testing.T) {
	t.Parallel()
	g := setup(t)
	c, _ := g.clients(t)
	events := []sdk.EventPost{{Type: "a.b", UID: "one", Data: map[string]int{"n": 1}}, {Type: "not a type", Data: 1}}
	results, err := c.PostEvents(t.Context(), events, sdk.BatchOptions{})
	if err != nil || len(results) != 2 || results[0].Receipt.ID == "" || results[1].Problem == nil || results[1].Problem.Code != "validation_failed" {
		t.Fatalf("%+v, %v", results, err)
	}
	if _, err := c.PostEvents(t.Context(), events, sdk.BatchOptions{Atomic: true}); err == nil {
		t.Error("an atomic batch with a bad event was taken")
	}
}
