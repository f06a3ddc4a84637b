package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest/checker"
	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

// Receiver takes deliveries for endpoints, verifies each, and keeps a journal.
type Receiver struct {
	*httptest.Server
	mu        sync.Mutex
	endpoints map[string]*webhook.Verifier // by id
	requests  []checker.Request
	answer    func(endpointID string, n int) int
	delay     time.Duration
	arrived   chan struct{}
}

// NewReceiver starts a receiver that answers 204. It ends with the test.
func NewReceiver(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{endpoints: make(map[string]*webhook.Verifier), arrived: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(r.Close)
	return r
}

// Answer makes the receiver answer the n-th request (from 1) for an endpoint with a status.
func (r *Receiver) Answer(status func(endpointID string, n int) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = status
}

// Delay makes each answer take as long.
func (r *Receiver) Delay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

// Requests is the journal.
func (r *Receiver) Requests() []checker.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]checker.Request(nil), r.requests...)
}

func (r *Receiver) take(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender broke off: nothing whole arrived
	}
	now := time.Now()
	name := strings.TrimPrefix(req.URL.Path, "/")
	r.mu.Lock()
	id := name
	verifier, delay, answer := r.endpoints[name], r.delay, r.answer
	r.mu.Unlock()
	q := checker.Request{EndpointID: id, EventID: req.Header.Get("webhook-id"), Type: req.Header.Get("webhook-event-type"), Status: http.StatusNoContent, At: now}
	if verifier == nil {
		q.Unverified = "the receiver knows no such endpoint"
	} else if message, err := verifier.Verify(body, req.Header); err != nil {
		q.Unverified = err.Error()
	} else if event, err := message.Event(); err != nil {
		q.Unverified = err.Error()
	} else {
		q.UID, q.Data = event.UID, string(event.Data)
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-req.Context().Done():
			timer.Stop()
		}
	}
	r.mu.Lock()
	if answer != nil {
		n := 1
		for i := range r.requests {
			if r.requests[i].EndpointID == id {
				n++
			}
		}
		q.Status = answer(id, n)
	}
	r.requests = append(r.requests, q)
	r.mu.Unlock()
	w.WriteHeader(q.Status)
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// Endpoint registers an endpoint of a tenant at this receiver, and returns it for the checker. types are its globs; wants
// says the same in the test's own words.
func (r *Receiver) Endpoint(t testing.TB, g *Gateway, tenantID, token, types string, wants func(typ string) bool) checker.Endpoint {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.mu.Lock()
	name := fmt.Sprintf("e%d", len(r.endpoints))
	r.endpoints[name] = nil
	r.mu.Unlock()
	body := fmt.Sprintf(`{"url":"%s/%s","types":[%q]}`, r.URL, name, types)
	status, answer, err := g.Call(ctx, token, http.MethodPost, "/v1/endpoints", []byte(body))
	var made struct{ ID, Secret string }
	if err != nil || status != http.StatusCreated || json.Unmarshal(answer, &made) != nil {
		t.Fatalf("create an endpoint: %d %s %v", status, answer, err)
	}
	verifier, err := webhook.NewVerifier(made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.endpoints[name] = verifier
	r.mu.Unlock()
	return checker.Endpoint{ID: name, Tenant: tenantID, Wants: wants}
}

// Producer posts events and keeps a journal. It posts an event again, with the same uid, until it is answered 2xx.
type Producer struct {
	Gateways func() []*Gateway // that run now
	Tenant   string
	Token    string
	Clients  int // posts at once

	mu       sync.Mutex
	posts    []checker.Post
	answered sync.Cond // with mu; of more posts
}

// NewProducer returns a producer of a tenant's events.
func NewProducer(gateways func() []*Gateway, tenant, token string, clients int) *Producer {
	p := &Producer{Gateways: gateways, Tenant: tenant, Token: token, Clients: clients}
	p.answered.L = &p.mu
	return p
}

// Posts is the journal.
func (p *Producer) Posts() []checker.Post {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]checker.Post(nil), p.posts...)
}

// Run posts n events, of types a.x and b.x in turn, and returns when each is answered or ctx ends.
func (p *Producer) Run(ctx context.Context, n int) {
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range p.Clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range numbers {
				p.post(ctx, i)
			}
		}()
	}
	for i := range n {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	wg.Wait()
}

// Await waits until n posts have been answered, or ctx ends.
func (p *Producer) Await(ctx context.Context, n int) {
	stop := context.AfterFunc(ctx, p.answered.Broadcast)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.posts) < n && ctx.Err() == nil {
		p.answered.Wait()
	}
}

func (p *Producer) post(ctx context.Context, i int) {
	typ := "a.x"
	if i%2 == 1 {
		typ = "b.x"
	}
	post := checker.Post{UID: fmt.Sprintf("%s-%d", p.Tenant[len(p.Tenant)-6:], i), Tenant: p.Tenant, Type: typ, Data: fmt.Sprintf(`{"n": %d.0, "s":"\u00e9<&>"}`, i)}
	body := fmt.Appendf(nil, `{"type":%q,"uid":%q,"data":%s}`, post.Type, post.UID, post.Data)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for try := 0; ctx.Err() == nil; try++ {
		if gateways := p.Gateways(); len(gateways) > 0 {
			status, answer, err := gateways[(i+try)%len(gateways)].Call(ctx, p.Token, http.MethodPost, "/v1/events", body)
			var receipt struct{ ID string }
			if err == nil && status/100 == 2 && json.Unmarshal(answer, &receipt) == nil {
				post.EventID, post.Answered = receipt.ID, time.Now()
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
	p.mu.Lock()
	p.posts = append(p.posts, post)
	p.mu.Unlock()
	p.answered.Broadcast()
}

// Export reads all deliveries and attempts of a tenant through the API. names translates ids of endpoints into the
// receiver's.
func Export(ctx context.Context, g *Gateway, tenantID, token string) (deliveries []checker.Delivery, attempts []checker.Attempt, err error) {
	names := make(map[string]string)
	err = pages(ctx, g, token, "/v1/endpoints", func(item json.RawMessage) error {
		var e struct{ ID, URL string }
		if err := json.Unmarshal(item, &e); err != nil {
			return err
		}
		names[e.ID] = e.URL[strings.LastIndexByte(e.URL, '/')+1:]
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	err = pages(ctx, g, token, "/v1/deliveries", func(item json.RawMessage) error {
		var d struct {
			ID         string `json:"id"`
			EventID    string `json:"event_id"`
			EndpointID string `json:"endpoint_id"`
			State      string `json:"state"`
		}
		if err := json.Unmarshal(item, &d); err != nil {
			return err
		}
		deliveries = append(deliveries, checker.Delivery{ID: d.ID, EventID: d.EventID, EndpointID: names[d.EndpointID], Tenant: tenantID, State: d.State})
		return pages(ctx, g, token, "/v1/deliveries/"+d.ID+"/attempts", func(item json.RawMessage) error {
			var a struct {
				Number int    `json:"number"`
				Sent   string `json:"sent"`
			}
			if err := json.Unmarshal(item, &a); err != nil {
				return err
			}
			attempts = append(attempts, checker.Attempt{EventID: d.EventID, EndpointID: names[d.EndpointID], Number: a.Number, Sent: a.Sent})
			return nil
		})
	})
	return deliveries, attempts, err
}

func pages(ctx context.Context, g *Gateway, token, path string, each func(json.RawMessage) error) error {
	cursor := ""
	for {
		at := path + "?limit=200"
		if cursor != "" {
			at += "&cursor=" + url.QueryEscape(cursor)
		}
		status, answer, err := g.Call(ctx, token, http.MethodGet, at, nil)
		if err != nil {
			return err
		}
		var page struct {
			Data       []json.RawMessage `json:"data"`
			NextCursor string            `json:"next_cursor"`
			HasMore    bool              `json:"has_more"`
		}
		if status != http.StatusOK {
			return fmt.Errorf("GET %s: %d %s", at, status, answer)
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return err
		}
		for _, item := range page.Data {
			if err := each(item); err != nil {
				return err
			}
		}
		if !page.HasMore {
			return nil
		}
		cursor = page.NextCursor
	}
}

// Settled waits until no delivery of a tenant is open.
func Settled(ctx context.Context, t testing.TB, gateways func() []*Gateway, token string) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last string
	for ctx.Err() == nil {
		if running := gateways(); len(running) > 0 {
			status, answer, err := running[0].Call(ctx, token, http.MethodGet, "/v1/deliveries?limit=1&state=pending&state=retrying", nil)
			var open struct{ Data []json.RawMessage }
			if err == nil && status == http.StatusOK && json.Unmarshal(answer, &open) == nil && len(open.Data) == 0 {
				status, answer, err = running[0].Call(ctx, token, http.MethodGet, "/v1/events?limit=1&state=pending", nil)
				if err == nil && status == http.StatusOK && json.Unmarshal(answer, &open) == nil && len(open.Data) == 0 {
					return
				}
			}
			last = fmt.Sprintf("%d %s %v", status, answer, err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	t.Errorf("deliveries are still open: %s", last)
}
