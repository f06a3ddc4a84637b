package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
)

// strict is the policy of production, with http, so that what is refused is refused for its address.
func strict(c *egress.Config) { c.Policy = egress.Policy{AllowHTTP: true} }

func wantBlocked(t *testing.T, r egress.Result, reason egress.Reason, class egress.Class) {
	t.Helper()
	want(t, r, 0, egress.FaultBlocked, reason, egress.SentNo)
	if r.Class != class {
		t.Errorf("the class is %q, want %q", r.Class, class)
	}
	if r.Phases.Connect != 0 || r.Phases.Protocol != "" {
		t.Errorf("something was connected: %+v", r.Phases)
	}
}

// dialled is a Control that lets nothing through and remembers what it was asked about: what the guard would
// have connected to.
type dialled struct {
	mu    sync.Mutex
	addrs []string
}

var errStop = errors.New("stop here")

func (d *dialled) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs = append(d.addrs, address)
	return errStop
}

func TestANameThatLeadsInsideIsBlocked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addrs []string
		class egress.Class
	}{
		{[]string{"127.0.0.1"}, egress.ClassLoopback},
		{[]string{"::1"}, egress.ClassLoopback},
		{[]string{"::ffff:127.0.0.1"}, egress.ClassLoopback},
		{[]string{"::ffff:10.0.0.5"}, egress.ClassPrivate},
		{[]string{"169.254.169.254"}, egress.ClassLinkLocal},
		{[]string{"100.64.0.1"}, egress.ClassShared},
		{[]string{"100.127.255.254"}, egress.ClassShared},
		{[]string{"168.63.129.16"}, egress.ClassPlatform},
		{[]string{"0.0.0.0"}, egress.ClassUnspecified},
		{[]string{"64:ff9b::7f00:1"}, egress.ClassTransition},
		{[]string{"fe80::1%eth0"}, egress.ClassInvalid},
		{[]string{"93.184.216.10", "127.0.0.1"}, egress.ClassLoopback},
		{[]string{"127.0.0.1", "93.184.216.10"}, egress.ClassLoopback},
		{[]string{"93.184.216.10", "93.184.216.11", "93.184.216.12", "93.184.216.13", "93.184.216.14", "10.0.0.5"}, egress.ClassPrivate},
	} {
		d := &dialled{}
		e := setup(t, strict, func(c *egress.Config) { c.Control = d.control })
		e.resolver.Script("r.test", egresstest.Addrs(c.addrs...))
		wantBlocked(t, e.post("http://r.test:8080/"), egress.ReasonAddressBlocked, c.class)
		if len(d.addrs) != 0 {
			t.Errorf("%v: %v was dialled", c.addrs, d.addrs)
		}
	}
}

func TestAPublicNameIsDialledAtTheAddressThatWasJudged(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"93.184.216.10", "100.63.255.254", "100.128.0.1", "2606:4700::10", "::ffff:93.184.216.10"} {
		d := &dialled{}
		e := setup(t, strict, func(c *egress.Config) { c.Control = d.control })
		e.resolver.Script("r.test", egresstest.Addrs(addr), egresstest.Addrs("127.0.0.1")) // another answer to a second query
		r := e.post("http://r.test:8080/")
		want(t, r, 0, egress.FaultConnect, egress.ReasonConnectFailed, egress.SentNo)
		at := netip.AddrPortFrom(netip.MustParseAddr(addr).Unmap(), 8080).String()
		if len(d.addrs) != 1 || d.addrs[0] != at || len(e.resolver.Queries()) != 1 {
			t.Errorf("%s: dialled %v after queries for %v", addr, d.addrs, e.resolver.Queries())
		}
		wantBlocked(t, e.post("http://r.test:8080/"), egress.ReasonAddressBlocked, egress.ClassLoopback)
	}
}

func TestAURLThatRegistrationRefusesIsBlockedBeforeAQuery(t *testing.T) {
	t.Parallel()
	e := setup(t, func(c *egress.Config) { c.Policy = egress.Policy{} })
	for _, u := range corpus(t) {
		if u.canonical != "" || u.policy.AllowHTTP {
			continue
		}
		r := e.post(u.raw)
		reason := egress.ReasonURLBlocked
		switch {
		case u.verdict == "blocked" && (strings.Contains(u.raw, ":22/") || strings.Contains(u.raw, ":25/")):
			reason = egress.ReasonPortBlocked
		case u.verdict == "blocked":
			reason = egress.ReasonAddressBlocked
		}
		want(t, r, 0, egress.FaultBlocked, reason, egress.SentNo)
	}
	if q := e.resolver.Queries(); len(q) != 0 {
		t.Errorf("queries for %v", q)
	}
}

// The last layer by itself: the guard's hook on a dialer of the standard library, which asks a resolver that
// lies. Nothing of the other layers is there.
func TestTheDialerHoldsAlone(t *testing.T) {
	t.Parallel()
	canary := egresstest.NewReceiver(t, egresstest.Canary(t))
	port := canary.Addr().Port()
	dns := nameServer(t, netip.MustParseAddr("127.0.0.1"))
	for name, control := range map[string]egress.Control{
		"strict":                egress.ControlOf(t, egress.Policy{}, "rebind.test"),
		"all of IPv4 is open":   egress.ControlOf(t, egress.Policy{Allow: []string{"0.0.0.0/0"}}, "rebind.test"),
		"the very name is open": egress.ControlOf(t, egress.Policy{Allow: []string{"rebind.test:" + itoa(port)}}, "rebind.test"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resolver, err := egress.NewResolver(dns)
			if err != nil {
				t.Fatal(err)
			}
			dialer := net.Dialer{Resolver: resolver, ControlContext: control}
			for _, host := range []string{"rebind.test.", "127.0.0.1"} {
				conn, err := dialer.DialContext(context.Background(), "tcp", net.JoinHostPort(host, itoa(port)))
				if err == nil {
					_ = conn.Close()
				}
				if class, ok := egress.RefusalOf(err); !ok || class != egress.ClassLoopback {
					t.Errorf("%s: got %v, want it refused as loopback", host, err)
				}
			}
		})
	}
}

func TestTheDialerRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	control := egress.ControlOf(t, egress.Policy{}, "r.test")
	for _, c := range [][2]string{
		{"udp4", "93.184.216.34:443"}, {"unix", "/tmp/x"}, {"tcp", "93.184.216.34:443"}, {"tcp4", "r.test:443"}, {"tcp4", ""},
		{"tcp6", "[fe80::1%eth0]:443"}, {"tcp6", "[2606:4700::10%eth0]:443"}, {"tcp4", "93.184.216.34:22"},
		{"tcp6", "[::ffff:127.0.0.1]:443"}, {"tcp6", "[::]:443"},
	} {
		if _, ok := egress.RefusalOf(control(context.Background(), c[0], c[1], nil)); !ok {
			t.Errorf("%s %s is let through", c[0], c[1])
		}
	}
	for _, c := range [][2]string{{"tcp4", "93.184.216.34:443"}, {"tcp6", "[2606:4700::10]:443"}, {"tcp6", "[::ffff:93.184.216.34]:443"}} {
		if err := control(context.Background(), c[0], c[1], nil); err != nil {
			t.Errorf("%s %s is refused: %v", c[0], c[1], err)
		}
	}
}

// Where a blocked target leads to an open port and where to a closed one can't be told apart.
func TestABlockedTargetTellsNothing(t *testing.T) {
	t.Parallel()
	canary := egresstest.NewReceiver(t, egresstest.Canary(t))
	e := setup(t, strict)
	e.resolver.Script("inside.test", egresstest.Addrs("127.0.0.1"))
	open := e.post(canary.URLFor("inside.test", "/"))
	closed := e.post("http://inside.test:" + itoa(egresstest.ClosedPort(t).Port()) + "/")
	for _, r := range []*egress.Result{&open, &closed} {
		wantBlocked(t, *r, egress.ReasonAddressBlocked, egress.ClassLoopback)
		r.StartedAt, r.Phases.Total, r.Phases.DNS = closed.StartedAt, 0, 0
	}
	if open.Status != closed.Status || open.Reason != closed.Reason || open.Phases != closed.Phases || open.Body != nil || open.Header != nil {
		t.Errorf("they differ: %+v and %+v", open, closed)
	}
}

func TestOneNamedTargetCanBeOpened(t *testing.T) {
	t.Parallel()
	d := &dialled{}
	e := setup(t, func(c *egress.Config) {
		c.Policy = egress.Policy{AllowHTTP: true, Allow: []string{"inside.test:900"}}
		c.Control = d.control
	})
	e.resolver.Script("inside.test", egresstest.Addrs("10.0.0.5"))
	e.resolver.Script("other.test", egresstest.Addrs("10.0.0.5"))
	want(t, e.post("http://inside.test:900/"), 0, egress.FaultConnect, egress.ReasonConnectFailed, egress.SentNo)
	if len(d.addrs) != 1 || d.addrs[0] != "10.0.0.5:900" {
		t.Errorf("dialled %v", d.addrs)
	}
	wantBlocked(t, e.post("http://inside.test:8080/"), egress.ReasonAddressBlocked, egress.ClassPrivate)
	wantBlocked(t, e.post("http://other.test:8080/"), egress.ReasonAddressBlocked, egress.ClassPrivate)
	wantBlocked(t, e.post("http://other.test:900/"), egress.ReasonPortBlocked, egress.ClassPort)
}

func TestOurOwnListenerIsRefused(t *testing.T) {
	t.Parallel()
	canary := egresstest.NewReceiver(t, egresstest.Canary(t))
	e := setup(t, func(c *egress.Config) {
		c.Policy.Self = []netip.AddrPort{canary.Addr()}
		c.Policy.SelfHosts = []string{"gateway.test:" + itoa(canary.Addr().Port())}
	})
	e.resolver.Script("r.test", egresstest.Addrs("127.0.0.1"))
	wantBlocked(t, e.post(canary.URL("/")), egress.ReasonAddressBlocked, egress.ClassSelf)
	wantBlocked(t, e.post(canary.URLFor("r.test", "/")), egress.ReasonAddressBlocked, egress.ClassSelf)
	wantBlocked(t, e.post(canary.URLFor("gateway.test", "/")), egress.ReasonAddressBlocked, egress.ClassSelf)
}

func TestAProxyInTheEnvironmentIsIgnored(t *testing.T) { // not parallel: it sets the environment
	proxy := egresstest.NewReceiver(t, egresstest.Canary(t))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy.URL(""))
	}
	authority := egresstest.NewAuthority(t)
	e := setup(t, func(c *egress.Config) { c.RootCAs = authority.Pool() })
	plain := egresstest.NewReceiver(t, egresstest.Always(egresstest.OK))
	secure := egresstest.NewTLSReceiver(t, egresstest.Always(egresstest.OK), serverTLS(authority.Certificate("r.test")))
	e.resolver.Script("r.test", egresstest.Addrs("127.0.0.1"))
	wantOK(t, e.post(plain.URLFor("r.test", "/")), 200)
	wantOK(t, e.post(secure.URLFor("r.test", "/")), 200)
}
