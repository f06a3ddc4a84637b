package sallyport_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sallyport "github.com/sallyport-dev/sallyport/sdk/go"
)

// step answers one request.
type step func(w http.ResponseWriter, r *http.Request)

func problem(status int, body string, header ...string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func answer(body string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "r1")
		_, _ = io.WriteString(w, body)
	}
}

// cut ends the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// play serves the steps in turn, the last one for ever, and counts the requests.
func play(t *testing.T, steps ...step) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(requests.Add(1))
		steps[min(n, len(steps))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

func setup(t *testing.T, url string, options ...sallyport.Option) *sallyport.Client {
	t.Helper()
	options = append([]sallyport.Option{sallyport.WithRetries(3, time.Millisecond, 4*time.Millisecond)}, options...)
	c, err := sallyport.New(url, "tok", options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const receipt = `{"id":"evt_1","state":"pending","duplicate":false,"accepted_at":"2026-07-01T10:00:00.000001Z","links":{"self":"/v1/events/evt_1"}}`

func TestRetries(t *testing.T) {
	t.Parallel()
	busy := problem(503, `{"code":"unavailable","status":503}`, "Retry-After", "0")
	read := func(c *sallyport.Client) error { _, err := c.GetEvent(context.Background(), "evt_1"); return err }
	post := func(uid string) func(c *sallyport.Client) error {
		return func(c *sallyport.Client) error {
			_, err := c.PostEvent(context.Background(), sallyport.EventPost{Type: "a", Data: 1, UID: uid})
			return err
		}
	}
	tests := map[string]struct {
		call     func(*sallyport.Client) error
		steps    []step
		requests int32
		err      error
	}{
		"a read goes on after a cut connection": {read, []step{cut, busy, answer(`{}`)}, 3, nil},
		"a read ends after three more":          {read, []step{busy}, 4, sallyport.ErrUnavailable},
		"a proxy's answer is an answer":         {read, []step{problem(502, `<html>`), answer(`{}`)}, 2, nil},
		"a post with a uid is repeated":         {post("u"), []step{cut, busy, answer(receipt)}, 3, nil},
		"one without is, under a key":           {post(""), []step{cut, busy, problem(409, `{"code":"request_in_progress"}`, "Retry-After", "0"), answer(receipt)}, 4, nil},
		"what is wrong stays wrong":             {read, []step{problem(404, `{"code":"not_found"}`)}, 1, sallyport.ErrNotFound},
		"an internal error is not asked again":  {post("u"), []step{problem(500, `{"code":"internal"}`)}, 1, sallyport.ErrInternal},
		"a wait that is too long is not waited": {read, []step{problem(503, `{}`, "Retry-After", "3600")}, 1, sallyport.ErrUnavailable},
		"a change is made once": {func(c *sallyport.Client) error {
			_, err := c.UpdateEndpoint(context.Background(), "ep_1", sallyport.EndpointPatch{})
			return err
		}, []step{busy}, 1, sallyport.ErrUnavailable},
		"an answer that is no JSON is not asked again": {read, []step{answer(`<html>`)}, 1, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := play(t, test.steps...)
			err := test.call(setup(t, url))
			if test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("it ended with %v, want %v", err, test.err)
			}
			if strings.HasPrefix(name, "an answer that is no JSON") == (err == nil) && test.err == nil {
				t.Errorf("it ended with %v", err)
			}
			if n := requests.Load(); n != test.requests {
				t.Errorf("%d requests were made, want %d", n, test.requests)
			}
		})
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	url, _ := play(t, problem(503, `{}`, "Retry-After", "1"), answer(`{}`))
	began := time.Now()
	c := setup(t, url, sallyport.WithRetries(1, 400*time.Millisecond, time.Second))
	if _, err := c.GetEvent(t.Context(), "evt_1"); err != nil {
		t.Fatal(err)
	}
	// At least half of the random wait comes on top: not all come back at the same moment.
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("it asked again after %s, want 1.2 s and more", took)
	}
}

// Each POST has a key: the one that it was given, or a new one, which stays the same over the retries of the call.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	calls := map[string]func(c *sallyport.Client, a *sallyport.Admin, key string) error{
		"PostEvent": func(c *sallyport.Client, _ *sallyport.Admin, key string) error {
			_, err := c.PostEvent(t.Context(), sallyport.EventPost{Type: "a", IdempotencyKey: key})
			return err
		},
		"PostEvents": func(c *sallyport.Client, _ *sallyport.Admin, key string) error {
			_, err := c.PostEvents(t.Context(), []sallyport.EventPost{{Type: "a"}}, sallyport.BatchOptions{IdempotencyKey: key})
			return err
		},
		"CreateEndpoint": func(c *sallyport.Client, _ *sallyport.Admin, key string) error {
			_, _, err := c.CreateEndpoint(t.Context(), sallyport.EndpointCreate{IdempotencyKey: key})
			return err
		},
		"RotateSecret": func(c *sallyport.Client, _ *sallyport.Admin, key string) error {
			_, _, err := c.RotateSecret(t.Context(), "ep_1", sallyport.Rotation{IdempotencyKey: key})
			return err
		},
		"CreateToken": func(c *sallyport.Client, _ *sallyport.Admin, key string) error {
			_, _, err := c.CreateToken(t.Context(), sallyport.TokenCreate{IdempotencyKey: key})
			return err
		},
		"CreateTenant": func(_ *sallyport.Client, a *sallyport.Admin, key string) error {
			_, err := a.CreateTenant(t.Context(), sallyport.TenantCreate{IdempotencyKey: key})
			return err
		},
		"CreateTenantToken": func(_ *sallyport.Client, a *sallyport.Admin, key string) error {
			_, _, err := a.CreateTenantToken(t.Context(), "ten_1", sallyport.TokenCreate{IdempotencyKey: key})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var keys []string
			url, _ := play(t, func(w http.ResponseWriter, r *http.Request) {
				keys = append(keys, strings.Join(r.Header.Values("Idempotency-Key"), " and "))
				if body, _ := io.ReadAll(r.Body); strings.Contains(strings.ToLower(string(body)), "idempotency") {
					t.Errorf("it is in the body: %s", body)
				}
				if len(keys)%2 == 1 {
					cut(w, r)
				}
				answer(`{}`)(w, r)
			})
			a, err := sallyport.NewAdmin(url, "tok", sallyport.WithRetries(3, time.Millisecond, time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			const given = `"my/key,1=%20!~"`
			for _, key := range []string{"", "", given} {
				if err := call(setup(t, url), a, key); err != nil {
					t.Fatal(err)
				}
			}
			if len(keys) != 6 || keys[0] == "" || keys[0] != keys[1] || keys[2] == "" || keys[2] != keys[3] || keys[0] == keys[2] || keys[4] != given || keys[5] != given {
				t.Errorf("it sent %q", keys)
			}
		})
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	url, requests := play(t, problem(503, `{"code":"unavailable"}`, "Retry-After", "20"))
	ctx, cancel := context.WithCancel(t.Context())
	c := setup(t, url, sallyport.WithObserver(func(sallyport.Exchange) { cancel() }))
	_, err := c.GetEvent(ctx, "evt_1")
	if err == nil || requests.Load() != 1 {
		t.Errorf("it ended with %v after %d requests", err, requests.Load())
	}
}

func TestProblem(t *testing.T) {
	t.Parallel()
	url, _ := play(t, problem(422, `{"type":"/problems/validation_failed","title":"The content is not valid","status":422,"detail":"/type: It must be there.",
		"code":"validation_failed","request_id":"r9","hint":"Correct it.","errors":[{"pointer":"/type","code":"required","detail":"It must be there."}]}`))
	_, err := setup(t, url).PostEvent(t.Context(), sallyport.EventPost{})
	var p *sallyport.Problem
	if !errors.As(err, &p) || !errors.Is(err, sallyport.ErrInvalid) || errors.Is(err, sallyport.ErrNotFound) {
		t.Fatalf("the error is %v", err)
	}
	if p.Code != "validation_failed" || p.RequestID != "r9" || len(p.Errors) != 1 || p.Errors[0].Pointer != "/type" {
		t.Errorf("the problem is %+v", p)
	}
	const want = "sallyport: POST /v1/events: 422 validation_failed: /type: It must be there. Correct it. (request r9)"
	if err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
}

func TestProblemOfWhatIsNoGateway(t *testing.T) {
	t.Parallel()
	url, _ := play(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<h1>no</h1>", http.StatusForbidden) })
	_, err := setup(t, url).GetWhoami(t.Context())
	var p *sallyport.Problem
	if !errors.As(err, &p) || p.Code != "" || !errors.Is(err, sallyport.ErrForbidden) || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("the error is %v", err)
	}
}

func TestDataKeepsItsBytes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data any
		want string
	}{
		"raw":      {json.RawMessage(`{"n": 1.0, "h":"<&>"}`), `{"type":"a<b","data":{"n": 1.0, "h":"<&>"}}`},
		"a struct": {struct{ H string }{"<&>"}, `{"type":"a<b","data":{"H":"<&>"}}`},
		"nothing":  {nil, `{"type":"a<b","data":null}`},
		"raw nil":  {json.RawMessage(nil), `{"type":"a<b","data":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []byte
			url, _ := play(t, func(w http.ResponseWriter, r *http.Request) {
				got, _ = io.ReadAll(r.Body)
				answer(receipt)(w, r)
			})
			if _, err := setup(t, url).PostEvent(t.Context(), sallyport.EventPost{Type: "a<b", Data: test.data}); err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("it sent %s, want %s", got, test.want)
			}
		})
	}
}

func TestPatchTellsAbsentFromNull(t *testing.T) {
	t.Parallel()
	one := "1"
	patch := sallyport.EndpointPatch{
		URL: sallyport.Set("https://a.example/?a&b"), UID: sallyport.Clear[string](), Types: sallyport.Set([]string{"a"}),
		Headers: sallyport.Set(map[string]*string{"X": &one, "Y": nil}),
	}
	var got string
	url, _ := play(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + r.Header.Get("If-Match") + " " + string(body)
		answer(`{}`)(w, r)
	})
	if _, err := setup(t, url).UpdateEndpoint(t.Context(), "uid:main", patch, sallyport.IfMatch(`"3"`)); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	body := got[strings.Index(got, "{"):]
	if err := json.Unmarshal([]byte(body), &fields); err != nil || len(fields) != 4 || fields["uid"] != nil || fields["url"] != "https://a.example/?a&b" {
		t.Errorf("it sent %s", got)
	}
	if !strings.HasPrefix(got, `PATCH /v1/endpoints/uid:main "3" `) {
		t.Errorf("it sent %s", got)
	}
}

func TestListsStopWhenTheyAreLeft(t *testing.T) {
	t.Parallel()
	url, requests := play(t, answer(`{"data":[{"id":"a"},{"id":"b"}],"next_cursor":"c1","has_more":true}`), answer(`{"data":[{"id":"c"}],"next_cursor":null,"has_more":false}`))
	c := setup(t, url)
	for e, err := range c.ListEvents(t.Context(), sallyport.EventFilter{}) {
		if err != nil || e.ID != "a" {
			t.Fatal(e, err)
		}
		break
	}
	if requests.Load() != 1 {
		t.Errorf("%d pages were fetched for one event", requests.Load())
	}
	requests.Store(0)
	ids := ""
	for e, err := range c.ListEvents(t.Context(), sallyport.EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids += e.ID
	}
	if ids != "abc" || requests.Load() != 2 {
		t.Errorf("%s in %d pages", ids, requests.Load())
	}
}

func TestListsEndWithAnError(t *testing.T) {
	t.Parallel()
	url, _ := play(t, answer(`{"data":[{"id":"a"}],"next_cursor":"c1"}`), problem(400, `{"code":"cursor_mismatch"}`))
	var seen []error
	for _, err := range setup(t, url).ListEvents(t.Context(), sallyport.EventFilter{}) {
		seen = append(seen, err)
	}
	if len(seen) != 2 || seen[0] != nil || !errors.Is(seen[1], sallyport.ErrInvalid) {
		t.Errorf("it gave %v", seen)
	}
}

func TestObserverSeesEveryRequest(t *testing.T) {
	t.Parallel()
	url, _ := play(t, cut, problem(503, `{}`, "X-Request-Id", "r0"), answer(`{}`))
	var seen []sallyport.Exchange
	c := setup(t, url, sallyport.WithObserver(func(x sallyport.Exchange) { seen = append(seen, x) }))
	if _, err := c.GetEvent(t.Context(), "evt_1"); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 || seen[0].Err == nil || seen[1].Status != 503 || seen[1].RequestID != "r0" || seen[2].Try != 3 || seen[2].RequestID != "r1" || seen[2].Path != "/v1/events/evt_1" {
		t.Errorf("it saw %+v", seen)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	url, requests := play(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	if _, err := setup(t, url).GetWhoami(t.Context()); err == nil || requests.Load() != 1 {
		t.Errorf("it ended with %v after %d requests", err, requests.Load())
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range [][2]string{{"", "t"}, {"gateway:8080", "t"}, {"ftp://a", "t"}, {"https://", "t"}, {"https://a?x=1", "t"}, {"https://u:p@a", "t"}, {"https://a", ""}, {"https://a", "t\nX: y"}, {"https://a\x00", "t"}} {
		if _, err := sallyport.New(bad[0], bad[1]); err == nil {
			t.Errorf("New(%q, %q) is no error", bad[0], bad[1])
		}
	}
	if _, err := sallyport.NewAdmin("http://127.0.0.1:8080/behind/", "t"); err != nil {
		t.Error(err)
	}
}

func TestBaseURLMayHaveAPath(t *testing.T) {
	t.Parallel()
	var path, agent string
	url, _ := play(t, func(w http.ResponseWriter, r *http.Request) {
		path, agent = r.URL.Path, r.Header.Get("User-Agent")
		answer(`{}`)(w, r)
	})
	if _, err := setup(t, url+"/behind/", sallyport.WithUserAgent("billing/1.0")).GetWhoami(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path != "/behind/v1/whoami" || agent != "billing/1.0 sallyport-go" {
		t.Errorf("it asked %s as %s", path, agent)
	}
}
