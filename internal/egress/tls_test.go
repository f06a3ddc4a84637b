package egress_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
)

func serverTLS(cert tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
}

// secure is a client that trusts an authority, and resolves r.test to loopback.
func secure(t testing.TB, change ...func(*egress.Config)) (*env, *egresstest.Authority) {
	t.Helper()
	authority := egresstest.NewAuthority(t)
	e := setup(t, append([]func(*egress.Config){func(c *egress.Config) { c.RootCAs = authority.Pool() }}, change...)...)
	e.resolver.Script("r.test", egresstest.Addrs("127.0.0.1"))
	return e, authority
}

func TestACertificateIsChecked(t *testing.T) {
	t.Parallel()
	e, authority := secure(t)
	other := egresstest.NewAuthority(t)
	canary := func(cert tls.Certificate) *egresstest.Receiver {
		return egresstest.NewTLSReceiver(t, func(c *egresstest.Conn) {
			if _, err := c.Read(); err == nil {
				t.Error("a request was sent")
			}
		}, serverTLS(cert))
	}
	for name, c := range map[string]struct {
		cert   tls.Certificate
		reason egress.Reason
	}{
		"expired":           {authority.Expired("r.test"), egress.ReasonTLSExpired},
		"for another name":  {authority.Certificate("other.test"), egress.ReasonTLSNameMismatch},
		"for an address":    {authority.Certificate("127.0.0.1"), egress.ReasonTLSNameMismatch},
		"of somebody else":  {other.Certificate("r.test"), egress.ReasonTLSUnknownAuthority},
		"for its subdomain": {authority.Certificate("a.r.test"), egress.ReasonTLSNameMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			rx := canary(c.cert)
			r := e.post(rx.URLFor("r.test", "/"))
			want(t, r, 0, egress.FaultTLS, c.reason, egress.SentNo)
			if r.Phases.TLS == 0 {
				t.Error("the handshake took no time")
			}
		})
	}
	t.Run("good, for the name", func(t *testing.T) {
		rx := egresstest.NewTLSReceiver(t, egresstest.Always(egresstest.OK), serverTLS(authority.Certificate("r.test")))
		r := e.post(rx.URLFor("R.test.", "/"))
		wantOK(t, r, 200)
		if r.Phases.Protocol != "HTTP/1.1" || r.Phases.Reused || r.Phases.TLS == 0 || r.Phases.Connect == 0 || r.Phases.DNS == 0 || r.Phases.FirstByte == 0 {
			t.Errorf("phases are %+v", r.Phases)
		}
		r = e.post(rx.URLFor("r.test", "/"))
		wantOK(t, r, 200)
		if !r.Phases.Reused || r.Phases.TLS != 0 || r.Phases.Connect != 0 || r.Phases.DNS != 0 {
			t.Errorf("phases of the second are %+v", r.Phases)
		}
	})
	t.Run("good, for the address", func(t *testing.T) {
		rx := egresstest.NewTLSReceiver(t, egresstest.Always(egresstest.OK), serverTLS(authority.Certificate("127.0.0.1")))
		wantOK(t, e.post(rx.URL("/")), 200)
	})
}

func TestHandshakesThatFail(t *testing.T) {
	t.Parallel()
	t.Run("plain text where TLS is meant", func(t *testing.T) {
		t.Parallel()
		e, _ := secure(t)
		rx := egresstest.NewReceiver(t, func(c *egresstest.Conn) { c.Write("HTTP/1.1 400 Bad Request\r\n\r\n"); c.Hang() })
		want(t, e.post("https://"+rx.Addr().String()+"/"), 0, egress.FaultTLS, egress.ReasonTLSNotTLS, egress.SentNo)
	})
	t.Run("the receiver closes", func(t *testing.T) {
		t.Parallel()
		e, _ := secure(t)
		rx := egresstest.NewReceiver(t, func(c *egresstest.Conn) {})
		want(t, e.post("https://"+rx.Addr().String()+"/"), 0, egress.FaultTLS, egress.ReasonTLSClosed, egress.SentNo)
	})
	t.Run("the receiver says nothing", func(t *testing.T) {
		t.Parallel()
		e, _ := secure(t, func(c *egress.Config) { c.ConnectTimeout = 200 * time.Millisecond })
		rx := egresstest.NewReceiver(t, (*egresstest.Conn).Hang)
		want(t, e.post("https://"+rx.Addr().String()+"/"), 0, egress.FaultTLS, egress.ReasonTLSTimeout, egress.SentNo)
	})
	t.Run("the receiver knows TLS 1.1 only", func(t *testing.T) {
		t.Parallel()
		e, authority := secure(t)
		config := serverTLS(authority.Certificate("r.test"))
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		rx := egresstest.NewTLSReceiver(t, (*egresstest.Conn).Hang, config)
		want(t, e.post(rx.URLFor("r.test", "/")), 0, egress.FaultTLS, egress.ReasonTLSHandshake, egress.SentNo)
	})
}

func TestTLS12IsSpoken(t *testing.T) {
	t.Parallel()
	e, authority := secure(t)
	config := serverTLS(authority.Certificate("r.test"))
	config.MaxVersion = tls.VersionTLS12
	rx := egresstest.NewTLSReceiver(t, egresstest.Always(egresstest.OK), config)
	for range 3 {
		wantOK(t, e.post(rx.URLFor("r.test", "/")), 200)
	}
	if n := len(rx.Connections()); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// Session tickets arrive after the handshake, when nobody reads: they don't make an idle connection look as
// if the receiver had spoken out of turn.
func TestAnIdleTLSConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	e, authority := secure(t)
	rx := egresstest.NewTLSReceiver(t, egresstest.Always(egresstest.OK), serverTLS(authority.Certificate("r.test")))
	for i := range 5 {
		r := e.post(rx.URLFor("r.test", "/"))
		wantOK(t, r, 200)
		if r.Phases.Reused != (i > 0) {
			t.Errorf("request %d: reused is %v", i, r.Phases.Reused)
		}
	}
	if n := len(rx.Connections()); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// sent counts what was encrypted for the request: the bytes of the handshake don't make a request.
func TestAHandshakeIsNoRequest(t *testing.T) {
	t.Parallel()
	e, authority := secure(t)
	ctx, cancel := context.WithCancel(context.Background())
	shaken := make(chan struct{})
	config := serverTLS(authority.Certificate("r.test"))
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cancel()
		<-shaken
		return nil, context.Canceled
	}
	rx := egresstest.NewTLSReceiver(t, func(c *egresstest.Conn) { c.Protocol() }, config)
	r := e.client.Post(ctx, request(rx.URLFor("r.test", "/"), 0))
	close(shaken)
	want(t, r, 0, egress.FaultInterrupted, egress.ReasonCancelled, egress.SentNo)
}
