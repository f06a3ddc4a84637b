package egress_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a client that can reach loopback only, and the resolver it asks.
type env struct {
	t        testing.TB
	client   *egress.Client
	resolver *egresstest.Resolver
}

// setup makes a client. change may alter its configuration first.
func setup(t testing.TB, change ...func(*egress.Config)) *env {
	t.Helper()
	e := &env{t: t, resolver: egresstest.NewResolver(t)}
	config := egress.Config{
		Policy:   egress.Policy{AllowLoopback: true, AllowHTTP: true},
		Resolver: e.resolver,
		Control:  egresstest.LoopbackOnly(t),
	}
	for _, f := range change {
		f(&config)
	}
	client, err := egress.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	e.client = client
	return e
}

// post sends a small request, with a limit that only a broken test reaches.
func (e *env) post(url string) egress.Result {
	e.t.Helper()
	return e.postIn(url, egresstest.Patience)
}

func (e *env) postIn(url string, timeout time.Duration) egress.Result {
	e.t.Helper()
	return e.client.Post(context.Background(), request(url, timeout))
}

func request(url string, timeout time.Duration) egress.Request {
	return egress.Request{
		URL:     url,
		Header:  http.Header{"Content-Type": {"application/json"}, "Webhook-Id": {"evt_1"}},
		Body:    []byte(`{"id":"evt_1"}`),
		Timeout: timeout,
	}
}

// want holds a result to a status, or to a fault and its reason.
func want(t testing.TB, r egress.Result, status int, fault egress.Fault, reason egress.Reason, sent egress.Sent) {
	t.Helper()
	if r.Status != status || r.Fault != fault || r.Reason != reason || r.Sent != sent {
		t.Errorf("got status %d, fault %q, reason %q, sent %s; want %d, %q, %q, %s",
			r.Status, r.Fault, r.Reason, r.Sent, status, fault, reason, sent)
	}
	if (r.Status == 0) == (r.Fault == "") || (r.Fault == "") != (r.Reason == "") {
		t.Errorf("status %d, fault %q and reason %q don't go together", r.Status, r.Fault, r.Reason)
	}
	if r.StartedAt.IsZero() || r.Phases.Total <= 0 {
		t.Errorf("started %v, total %v", r.StartedAt, r.Phases.Total)
	}
}

func wantOK(t testing.TB, r egress.Result, status int) {
	t.Helper()
	want(t, r, status, "", "", egress.SentYes)
}
