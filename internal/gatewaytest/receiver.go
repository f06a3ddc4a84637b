package gatewaytest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest/checker"
	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

// Reply is what a receiver answers to a request.
type Reply struct {
	Status int           // 0: 204
	Delay  time.Duration // before the answer
	Hang   bool          // no answer, until the sender gives up
}

// Receiver takes deliveries for endpoints, verifies each, and keeps a journal. It lives as long as its test, whatever
// becomes of the gateways.
type Receiver struct {
	URL string // how endpoints are told to reach it

	server *httptest.Server
	ended  chan struct{}

	mu       sync.Mutex
	targets  map[string]*target // by name, the last part of an endpoint's URL
	requests []checker.Request
	replies  map[string]func(n int) Reply // by name; "": all others
}

// target is an endpoint at a receiver.
type target struct {
	ready    chan struct{} // closed once its secret is known
	verifier *webhook.Verifier
	arrived  int
}

// NewReceiver starts a receiver on loopback that answers 204. It ends with the test.
func NewReceiver(t testing.TB) *Receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return NewReceiverAt(t, l, nil, "http://"+l.Addr().String())
}

// NewReceiverAt starts a receiver at a listener, over TLS where config is given; url is how endpoints are told to
// reach it.
func NewReceiverAt(t testing.TB, l net.Listener, config *tls.Config, url string) *Receiver {
	t.Helper()
	r := &Receiver{URL: url, ended: make(chan struct{}), targets: make(map[string]*target), replies: make(map[string]func(int) Reply)}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.take))
	r.server.Listener.Close()
	r.server.Listener = l
	if r.server.TLS = config; config != nil {
		r.server.StartTLS()
	} else {
		r.server.Start()
	}
	t.Cleanup(func() { close(r.ended); r.server.Close() })
	return r
}

// Script says what the n-th request (from 1) for an endpoint is answered, counting from its registration. The endpoint
// "" is all those that have no script of their own.
func (r *Receiver) Script(endpoint string, reply func(n int) Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replies[endpoint] = reply
}

// Requests is the journal: what has arrived, answered or not.
func (r *Receiver) Requests() []checker.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]checker.Request(nil), r.requests...)
}

func (r *Receiver) take(w http.ResponseWriter, req *http.Request) {
	body, broken := io.ReadAll(req.Body)
	q := checker.Request{EndpointID: strings.TrimPrefix(req.URL.Path, "/"), EventID: req.Header.Get("webhook-id"), At: time.Now(),
		Connection: req.RemoteAddr, Broken: broken != nil}
	q.Attempt, _ = strconv.Atoi(req.Header.Get("webhook-attempt")) // no number is 0, which no attempt has
	r.mu.Lock()
	to := r.targets[q.EndpointID]
	r.mu.Unlock()
	if to != nil {
		select {
		case <-to.ready:
		case <-r.ended:
			return
		}
	}
	if !q.Broken {
		verify(&q, to, body, req.Header)
	}
	reply := r.journal(&q, to)
	if reply.Hang {
		select {
		case <-req.Context().Done():
		case <-r.ended:
		}
		panic(http.ErrAbortHandler)
	}
	if reply.Delay > 0 {
		timer := time.NewTimer(reply.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
		case <-r.ended:
		}
	}
	w.WriteHeader(q.Status)
}

// verify enters what a request says, or why it can't be relied on.
func verify(q *checker.Request, to *target, body []byte, header http.Header) {
	if to == nil {
		q.Unverified = "the receiver knows no such endpoint"
		return
	}
	message, err := to.verifier.Verify(body, header)
	if err != nil {
		q.Unverified = err.Error()
		return
	}
	event, err := message.Event()
	if err != nil {
		q.Unverified = err.Error()
		return
	}
	q.UID, q.Type, q.Data = event.UID, event.Type, string(event.Data)
}

// journal enters a request, with what it is going to be answered: whoever reads the journal sees what has arrived.
func (r *Receiver) journal(q *checker.Request, to *target) Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	var reply Reply
	if to != nil {
		to.arrived++
		script, ok := r.replies[q.EndpointID]
		if !ok {
			script = r.replies[""]
		}
		if script != nil {
			reply = script(to.arrived)
		}
	}
	switch {
	case q.Unverified != "":
		q.Status = http.StatusBadRequest
	case reply.Hang || q.Broken:
	case reply.Status == 0:
		q.Status = http.StatusNoContent
	default:
		q.Status = reply.Status
	}
	r.requests = append(r.requests, *q)
	return reply
}

// Endpoint registers an endpoint of a tenant at this receiver, and returns it for the checker. types are its globs; wants
// says the same in the test's own words.
func (r *Receiver) Endpoint(t testing.TB, g *Gateway, tenantID, token, types string, wants func(typ string) bool) checker.Endpoint {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.mu.Lock()
	name, to := fmt.Sprintf("e%d", len(r.targets)), &target{ready: make(chan struct{})}
	r.targets[name] = to
	r.mu.Unlock()
	body := fmt.Sprintf(`{"url":"%s/%s","types":[%q]}`, r.URL, name, types)
	status, answer, err := g.Call(ctx, token, http.MethodPost, "/v1/endpoints", []byte(body))
	var made struct{ Secret string }
	if err != nil || status != http.StatusCreated || json.Unmarshal(answer, &made) != nil {
		t.Fatalf("create an endpoint: %d %s %v", status, answer, err)
	}
	if to.verifier, err = webhook.NewVerifier(made.Secret); err != nil {
		t.Fatal(err)
	}
	close(to.ready)
	return checker.Endpoint{ID: name, Tenant: tenantID, Wants: wants}
}
