package gatewaytest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest"
	"github.com/sallyport-dev/sallyport/internal/gatewaytest/checker"
	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// stub is an API that does what a test wants, so that the bench itself can be tested: a gateway would not misbehave.
func stub(t *testing.T, serve http.HandlerFunc) *gatewaytest.Gateway {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return &gatewaytest.Gateway{URL: s.URL}
}

// register gives a receiver endpoints, with the secret above.
func register(t *testing.T, r *gatewaytest.Receiver, n int) []checker.Endpoint {
	t.Helper()
	g := stub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"ep_1","secret":%q}`, secret)
	})
	var made []checker.Endpoint
	for range n {
		made = append(made, r.Endpoint(t, g, "ten_1", "token", "**", func(string) bool { return true }))
	}
	return made
}

// deliver makes a delivery's request, and returns the status of the answer.
func deliver(t *testing.T, ctx context.Context, url, secret string, attempt int, body string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if req.Header, err = webhook.Sign(secret, "evt_1", time.Now(), []byte(body)); err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Webhook-Attempt", fmt.Sprint(attempt))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

const event = `{"id":"evt_1","uid":"u1","type":"a.x","occurred_at":"2026-06-01T12:00:00.000000Z","data":{"n": 1.0}}`

func TestReceiverKeepsAJournal(t *testing.T) {
	t.Parallel()
	r := gatewaytest.NewReceiver(t)
	endpoints := register(t, r, 2)
	r.Script(endpoints[1].ID, func(n int) gatewaytest.Reply { return gatewaytest.Reply{Status: 500 + n} })
	for i, c := range []struct {
		endpoint, secret string
		status           int
		unverified       bool
	}{
		{endpoints[0].ID, secret, 204, false},
		{endpoints[1].ID, secret, 501, false},
		{endpoints[1].ID, secret, 502, false},
		{endpoints[0].ID, "whsec_" + strings.Repeat("A", 32), 400, true},
		{"nobody", secret, 400, true},
	} {
		began := time.Now()
		status, err := deliver(t, t.Context(), r.URL+"/"+c.endpoint, c.secret, i+1, event)
		if err != nil || status != c.status {
			t.Errorf("%d: answered %d, %v", i, status, err)
		}
		journal := r.Requests()
		if len(journal) != i+1 {
			t.Fatalf("%d requests after %d", len(journal), i+1)
		}
		q := journal[i]
		if c.unverified != (q.Unverified != "") || q.At.Before(began) || q.Connection == "" {
			t.Errorf("%d: %+v", i, q)
		}
		q.At, q.Connection, q.Unverified = time.Time{}, "", ""
		want := checker.Request{EndpointID: c.endpoint, EventID: "evt_1", Attempt: i + 1, Status: c.status}
		if !c.unverified {
			want.UID, want.Type, want.Data = "u1", "a.x", `{"n": 1.0}`
		}
		if q != want {
			t.Errorf("%d: %+v, want %+v", i, q, want)
		}
	}
}

func TestReceiverHangsAndDelays(t *testing.T) {
	t.Parallel()
	r := gatewaytest.NewReceiver(t)
	endpoints := register(t, r, 2)
	const delay = 50 * time.Millisecond
	r.Script("", func(int) gatewaytest.Reply { return gatewaytest.Reply{Delay: delay} })
	r.Script(endpoints[1].ID, func(int) gatewaytest.Reply { return gatewaytest.Reply{Hang: true} })
	began := time.Now()
	if status, err := deliver(t, t.Context(), r.URL+"/"+endpoints[0].ID, secret, 1, event); err != nil || status != 204 || time.Since(began) < delay {
		t.Errorf("answered %d, %v, after %s", status, err, time.Since(began))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if status, err := deliver(t, ctx, r.URL+"/"+endpoints[1].ID, secret, 1, event); err == nil {
		t.Errorf("answered %d", status)
	}
	if journal := r.Requests(); len(journal) != 2 || journal[0].Status != 204 || journal[1].Status != 0 || journal[1].UID != "u1" {
		t.Errorf("%+v", journal)
	}
}

// A request that broke off is on the wire all the same, and its row must be there.
func TestReceiverKeepsWhatBrokeOff(t *testing.T) {
	t.Parallel()
	r := gatewaytest.NewReceiver(t)
	endpoint := register(t, r, 1)[0]
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: r\r\nWebhook-Id: evt_1\r\nWebhook-Attempt: 7\r\nContent-Length: 100\r\n\r\n{", endpoint.ID)
	conn.Close()
	eventually(t, func() bool { return len(r.Requests()) == 1 })
	if q := r.Requests()[0]; !q.Broken || q.EventID != "evt_1" || q.Attempt != 7 || q.Unverified != "" || q.Status != 0 {
		t.Errorf("%+v", q)
	}
}

func eventually(t *testing.T, what func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !what(); {
		if <-tick.C; time.Now().After(deadline) {
			t.Fatal("it does not come true")
		}
	}
}

// api counts posts by uid, and answers them as told.
type api struct {
	mu    sync.Mutex
	posts map[string]int
	now   int
	most  int
}

func (a *api) serve(answer func(uid string, n int) int) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		var body struct{ UID string }
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil || body.UID == "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		a.mu.Lock()
		a.posts[body.UID]++
		n := a.posts[body.UID]
		a.now++
		a.most = max(a.most, a.now)
		a.mu.Unlock()
		status := answer(body.UID, n)
		a.mu.Lock()
		a.now--
		a.mu.Unlock()
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"id":"evt_%s"}`, body.UID)
	}
}

func TestProducer(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, answer func(uid string, n int) int) (*gatewaytest.Producer, *api) {
		a := &api{posts: make(map[string]int)}
		gone := &gatewaytest.Gateway{URL: "http://127.0.0.1:1"}
		running := []*gatewaytest.Gateway{gone, stub(t, a.serve(answer)), stub(t, a.serve(answer))}
		p := gatewaytest.NewProducer(func() []*gatewaytest.Gateway { return running }, "ten_1", "token", 4)
		p.Again = time.Millisecond
		return p, a
	}

	t.Run("posts the same event again until it is taken", func(t *testing.T) {
		t.Parallel()
		p, a := setup(t, func(_ string, n int) int { return []int{0, 503, 429, 202}[min(n, 4)-1] })
		p.Run(t.Context(), 20)
		posts := p.Posts()
		if len(posts) != 20 || len(a.posts) != 20 || a.most > 4 {
			t.Fatalf("%d posts, %d arrived, %d at once", len(posts), len(a.posts), a.most)
		}
		for _, post := range posts {
			if post.EventID != "evt_"+post.UID || post.Answered.IsZero() || post.Status != 202 || post.Tries < 4 || a.posts[post.UID] != 4 {
				t.Errorf("%+v, arrived %d times", post, a.posts[post.UID])
			}
		}
	})

	t.Run("gives up what no try makes better", func(t *testing.T) {
		t.Parallel()
		p, a := setup(t, func(string, int) int { return 422 })
		p.Run(t.Context(), 3)
		for _, post := range p.Posts() {
			if post.EventID != "" || post.Status != 422 || a.posts[post.UID] != 1 {
				t.Errorf("%+v, arrived %d times", post, a.posts[post.UID])
			}
		}
	})

	t.Run("keeps to its tries and its time", func(t *testing.T) {
		t.Parallel()
		p, _ := setup(t, func(string, int) int { return 503 })
		p.Tries = 5
		p.Run(t.Context(), 2)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		p.Tries = 0
		p.Run(ctx, 1)
		posts := p.Posts()
		if len(posts) != 3 || posts[0].Tries != 5 || posts[1].Tries != 5 || posts[2].EventID != "" {
			t.Errorf("%+v", posts)
		}
		p.Await(ctx, 4) // returns: its time is up
	})
}

func TestExport(t *testing.T) {
	t.Parallel()
	lists := map[string][]string{
		"/v1/endpoints":                 {`{"id":"ep_1","url":"http://127.0.0.1:9/e0"}`},
		"/v1/events":                    {`{"id":"evt_1","uid":"u1"}`, `{"id":"evt_2","uid":"u2"}`},
		"/v1/deliveries":                {`{"id":"dlv_1","event_id":"evt_1","endpoint_id":"ep_1","state":"succeeded"}`, `{"id":"dlv_2","event_id":"evt_2","endpoint_id":"ep_9","state":"held"}`},
		"/v1/deliveries/dlv_1/attempts": {`{"number":1,"sent":"unknown"}`, `{"number":2,"sent":"yes"}`},
		"/v1/deliveries/dlv_2/attempts": nil,
	}
	stuck := false
	g := stub(t, func(w http.ResponseWriter, req *http.Request) { // pages of one
		list, known := lists[req.URL.Path]
		at := 0
		fmt.Sscanf(req.URL.Query().Get("cursor"), "at %d", &at)
		switch {
		case !known:
			w.WriteHeader(http.StatusNotFound)
		case at+1 < len(list) && stuck:
			fmt.Fprint(w, `{"data":[],"next_cursor":null,"has_more":true}`)
		case at+1 < len(list):
			fmt.Fprintf(w, `{"data":[%s],"next_cursor":"at %d","has_more":true}`, list[at], at+1)
		default:
			fmt.Fprintf(w, `{"data":[%s],"next_cursor":null,"has_more":false}`, strings.Join(list[at:], ","))
		}
	})
	var run checker.Run
	if err := gatewaytest.Export(t.Context(), g, "ten_1", "token", &run); err != nil {
		t.Fatal(err)
	}
	if want := []checker.Event{{ID: "evt_1", UID: "u1", Tenant: "ten_1"}, {ID: "evt_2", UID: "u2", Tenant: "ten_1"}}; !slices.Equal(run.Events, want) {
		t.Errorf("events %+v", run.Events)
	}
	if want := []checker.Delivery{{ID: "dlv_1", EventID: "evt_1", EndpointID: "e0", Tenant: "ten_1", State: "succeeded"},
		{ID: "dlv_2", EventID: "evt_2", EndpointID: "ep_9", Tenant: "ten_1", State: "held"}}; !slices.Equal(run.Deliveries, want) {
		t.Errorf("deliveries %+v", run.Deliveries)
	}
	if want := []checker.Attempt{{EventID: "evt_1", EndpointID: "e0", Sent: "unknown", Number: 1}, {EventID: "evt_1", EndpointID: "e0", Sent: "yes", Number: 2}}; !slices.Equal(run.Attempts, want) {
		t.Errorf("attempts %+v", run.Attempts)
	}
	stuck = true
	if err := gatewaytest.Export(t.Context(), g, "ten_1", "token", new(checker.Run)); err == nil {
		t.Error("a list that does not come to its end was read to its end")
	}
}
