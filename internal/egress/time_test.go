package egress_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
)

func TestNamesThatDoNotResolve(t *testing.T) {
	t.Parallel()
	e := setup(t, func(c *egress.Config) { c.ConnectTimeout = 200 * time.Millisecond })
	e.resolver.Script("servfail.test", egresstest.Servfail())
	e.resolver.Script("empty.test", egresstest.Addrs())
	e.resolver.Script("hangs.test", egresstest.Answer{Hang: true})
	for host, reason := range map[string]egress.Reason{
		"unknown.test":  egress.ReasonDNSNotFound,
		"servfail.test": egress.ReasonDNSServfail,
		"empty.test":    egress.ReasonDNSNoAddress,
		"hangs.test":    egress.ReasonDNSTimeout,
	} {
		r := e.post("http://" + host + ":8080/")
		want(t, r, 0, egress.FaultDNS, reason, egress.SentNo)
		if host == "hangs.test" && (r.Phases.DNS < 200*time.Millisecond || r.Phases.Total > 5*time.Second) {
			t.Errorf("%s took %v", host, r.Phases.DNS)
		}
	}
}

func TestARealResolver(t *testing.T) {
	t.Parallel()
	dns := nameServer(t, netip.MustParseAddr("127.0.0.1"))
	resolver, err := egress.NewResolver(dns)
	if err != nil {
		t.Fatal(err)
	}
	e := setup(t, func(c *egress.Config) { c.Resolver = resolver })
	rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.OK))
	wantOK(t, e.post(rx.URLFor("r.test", "/")), 200)

	dead := "127.0.0.1:" + itoa(egresstest.ClosedPort(t).Port())
	if resolver, err = egress.NewResolver(dead); err != nil {
		t.Fatal(err)
	}
	e = setup(t, func(c *egress.Config) { c.Resolver = resolver })
	if r := e.post(rx.URLFor("r.test", "/")); r.Fault != egress.FaultDNS || r.Sent != egress.SentNo {
		t.Errorf("without a server: %q, %q", r.Fault, r.Reason)
	}
}

func TestTheNextAddressIsTried(t *testing.T) {
	t.Parallel()
	e := setup(t)
	rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.OK))
	e.resolver.Script("r.test", egresstest.Addrs("::1", "127.0.0.2", "127.0.0.1")) // only the last one listens
	wantOK(t, e.post(rx.URLFor("r.test", "/")), 200)
	e.resolver.Script("none.test", egresstest.Addrs("127.0.0.3", "127.0.0.2"))
	want(t, e.post(rx.URLFor("none.test", "/")), 0, egress.FaultConnect, egress.ReasonConnectRefused, egress.SentNo)
}

func TestAnAddressThatDoesNotAnswerTimesOut(t *testing.T) {
	t.Parallel()
	at := silentPort(t)
	e := setup(t, func(c *egress.Config) { c.ConnectTimeout = 300 * time.Millisecond })
	r := e.post("http://" + at + "/")
	want(t, r, 0, egress.FaultConnect, egress.ReasonConnectTimeout, egress.SentNo)
	if r.Phases.Connect < 300*time.Millisecond || r.Phases.Total > 3*time.Second {
		t.Errorf("it took %v", r.Phases.Connect)
	}
	t.Run("within the request's own time", func(t *testing.T) {
		e := setup(t)
		want(t, e.postIn("http://"+at+"/", 200*time.Millisecond), 0, egress.FaultConnect, egress.ReasonConnectTimeout, egress.SentNo)
	})
}

func TestTheCallersContextInterrupts(t *testing.T) {
	t.Parallel()
	t.Run("before anything", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		rx := egresstest.NewReceiver(t, egresstest.Canary(t))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		want(t, e.client.Post(ctx, request(rx.URL("/"), 0)), 0, egress.FaultInterrupted, egress.ReasonCancelled, egress.SentNo)
	})
	t.Run("while the name is resolved", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		e.resolver.Script("hangs.test", egresstest.Answer{Hang: true})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		want(t, e.client.Post(ctx, request("http://hangs.test/", 0)), 0, egress.FaultInterrupted, egress.ReasonCancelled, egress.SentNo)
	})
	t.Run("while the address doesn't answer", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		want(t, e.client.Post(ctx, request("http://"+silentPort(t)+"/", 0)), 0, egress.FaultInterrupted, egress.ReasonCancelled, egress.SentNo)
	})
	t.Run("while the answer is awaited", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		ctx, cancel := context.WithCancel(context.Background())
		rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool { cancel(); c.Hang(); return false }))
		want(t, e.client.Post(ctx, request(rx.URL("/"), 0)), 0, egress.FaultInterrupted, egress.ReasonCancelled, egress.SentYes)
		rx.WaitClosed(0)
	})
	t.Run("but not once the status is there", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		ctx, cancel := context.WithCancel(context.Background())
		rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
			c.Write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab")
			c.Pause(100 * time.Millisecond) // the header is read meanwhile
			cancel()
			c.Hang()
			return false
		}))
		r := e.client.Post(ctx, request(rx.URL("/"), egresstest.Patience))
		wantOK(t, r, 200)
		if string(r.Body) != "ab" || !r.Truncated || r.Phases.Total > 1500*time.Millisecond {
			t.Errorf("kept %q, truncated %v, in %v", r.Body, r.Truncated, r.Phases.Total)
		}
	})
}

func TestAReceiverThatAnswersInTimeIsWaitedFor(t *testing.T) {
	t.Parallel()
	e := setup(t)
	rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
		return c.Pause(300*time.Millisecond) && c.Write(egresstest.OK)
	}))
	r := e.postIn(rx.URL("/"), 5*time.Second)
	wantOK(t, r, 200)
	if r.Phases.FirstByte < 300*time.Millisecond || r.Phases.FirstByte > r.Phases.Total || r.Phases.DNS != 0 {
		t.Errorf("phases are %+v", r.Phases)
	}
	// The time limit of one request says nothing about the next one on the connection.
	r = e.postIn(rx.URL("/"), 5*time.Second)
	wantOK(t, r, 200)
	if !r.Phases.Reused {
		t.Error("it was not used again")
	}
}

var _ egress.Resolver = (*net.Resolver)(nil)
