package egress_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/egress"
)

func TestValidateReportsEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	err := egress.Policy{
		Allow:     []string{"10.0.0.0/8", "10.0.0.1/8", "nonsense", "127.0.0.1:8080", "::1", "fe80::/10", "localhost:80", "0.0.0.0", "host:0", "::ffff:10.0.0.0/104"},
		Deny:      []string{"192.168.0.0/16", "fe80::1%eth0", "a b:80", "host:99999"},
		Ports:     []egress.PortRange{{First: 443, Last: 80}, {First: 0, Last: 1}},
		Self:      []netip.AddrPort{{}, netip.MustParseAddrPort("127.0.0.1:8080")},
		SelfHosts: []string{"hooks.example.test", "a..b:443"},
	}.Validate()
	if !errors.Is(err, egress.ErrPolicy) {
		t.Fatalf("got %v, want ErrPolicy", err)
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		`allow: "10.0.0.1/8" has bits beyond its mask: did you mean 10.0.0.0/8?`, `allow: "nonsense" is neither`,
		`allow: "127.0.0.1:8080" is loopback`, `allow: "::1" is loopback`, `allow: "fe80::/10" is link_local`,
		`allow: "localhost:80" is loopback`, `allow: "0.0.0.0" is unspecified`, `allow: "host:0" has no port`,
		`allow: "::ffff:10.0.0.0/104" is IPv4 written as IPv6`,
		`deny: "fe80::1%eth0" is no plain address`, `deny: "a b:80" has no usable host`, `deny: "host:99999" has no port`,
		`ports: "443-80"`, `ports: "0-1"`, `self: "invalid AddrPort"`, `self: "a..b:443"`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d doesn't say %q in\n%v", i, want, err)
		}
	}
	if len(lines) != 16 {
		t.Errorf("%d problems, want 16:\n%v", len(lines), err)
	}
	if err := (egress.Policy{}).Validate(); err != nil {
		t.Errorf("the zero policy: %v", err)
	}
}

func TestParsePorts(t *testing.T) {
	t.Parallel()
	got, err := egress.ParsePorts(" 80, 443 ,1024-65535")
	if err != nil || len(got) != 3 || got[2] != (egress.PortRange{First: 1024, Last: 65535}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := egress.ParsePorts(""); err != nil || len(got) != 3 {
		t.Errorf("empty text: %v, %v, want the default", got, err)
	}
	for _, text := range []string{"0", "65536", "x", "80-", "-80", "90-80", "80,,443", "080", "+80"} {
		if got, err := egress.ParsePorts(text); !errors.Is(err, egress.ErrPolicy) {
			t.Errorf("%q: %v, %v, want ErrPolicy", text, got, err)
		}
	}
}

// The operator's lists, shown on literal addresses: what is judged there is judged the same at the dial.
func TestPolicyJudges(t *testing.T) {
	t.Parallel()
	self := []netip.AddrPort{netip.MustParseAddrPort("93.184.216.99:8443"), netip.MustParseAddrPort("0.0.0.0:8080")}
	for _, c := range []struct {
		name   string
		policy egress.Policy
		url    string
		class  egress.Class // empty: allowed
	}{
		{"public by default", egress.Policy{}, "https://93.184.216.34/", ""},
		{"private by default", egress.Policy{}, "https://10.0.0.5/", egress.ClassPrivate},
		{"allow opens a block", egress.Policy{Allow: []string{"10.0.0.0/8"}}, "https://10.0.0.5/", ""},
		{"allow opens one address", egress.Policy{Allow: []string{"10.0.0.5"}}, "https://10.0.0.5/", ""},
		{"and not its neighbour", egress.Policy{Allow: []string{"10.0.0.5"}}, "https://10.0.0.6/", egress.ClassPrivate},
		{"allow opens IPv6", egress.Policy{Allow: []string{"fd00::/8"}}, "https://[fd00::5]/", ""},
		{"allow opens one target", egress.Policy{Allow: []string{"10.0.0.5:8080"}}, "https://10.0.0.5:8080/", ""},
		{"and not its other ports", egress.Policy{Allow: []string{"10.0.0.5:8080"}}, "https://10.0.0.5:8081/", egress.ClassPrivate},
		{"a block opens no port", egress.Policy{Allow: []string{"10.0.0.0/8"}}, "https://10.0.0.5:22/", egress.ClassPort},
		{"a target opens its port", egress.Policy{Allow: []string{"10.0.0.5:22"}}, "https://10.0.0.5:22/", ""},
		{"a target opens a public port", egress.Policy{Allow: []string{"93.184.216.34:900"}}, "https://93.184.216.34:900/", ""},
		{"a named target opens its port", egress.Policy{Allow: []string{"R.example.test:900"}}, "https://r.example.test:900/", ""},
		{"everything opens no loopback", egress.Policy{Allow: []string{"0.0.0.0/0"}}, "https://127.0.0.1/", egress.ClassLoopback},
		{"nor link-local", egress.Policy{Allow: []string{"0.0.0.0/0"}}, "https://169.254.169.254/", egress.ClassLinkLocal},
		{"nor unspecified", egress.Policy{Allow: []string{"0.0.0.0/0"}}, "https://0.0.0.0/", egress.ClassUnspecified},
		{"nor multicast", egress.Policy{Allow: []string{"0.0.0.0/0"}}, "https://224.0.0.1/", egress.ClassMulticast},
		{"nor IPv6 loopback", egress.Policy{Allow: []string{"::/0"}}, "https://[::1]/", egress.ClassLoopback},
		{"nor IPv6 link-local", egress.Policy{Allow: []string{"::/0"}}, "https://[fe80::1]/", egress.ClassLinkLocal},
		{"nor other spellings of IPv4", egress.Policy{Allow: []string{"::/0"}}, "https://[::7f00:1]/", egress.ClassEmbedded},
		{"deny closes a public address", egress.Policy{Deny: []string{"93.184.216.0/24"}}, "https://93.184.216.34/", egress.ClassDenied},
		{"deny closes one port", egress.Policy{Deny: []string{"93.184.216.34:8080"}}, "https://93.184.216.34:8080/", egress.ClassDenied},
		{"and not the others", egress.Policy{Deny: []string{"93.184.216.34:8080"}}, "https://93.184.216.34/", ""},
		{"deny closes a name", egress.Policy{Deny: []string{"r.example.test:443"}}, "https://R.example.test./", egress.ClassDenied},
		{"deny wins over allow", egress.Policy{Allow: []string{"10.0.0.0/8"}, Deny: []string{"10.0.0.5"}}, "https://10.0.0.5/", egress.ClassDenied},
		{"loopback in development", egress.Policy{AllowLoopback: true}, "https://127.9.9.9:8080/", ""},
		{"its name too", egress.Policy{AllowLoopback: true}, "https://localhost:8080/", ""},
		{"but not unspecified", egress.Policy{AllowLoopback: true}, "https://0.0.0.0:8080/", egress.ClassUnspecified},
		{"our listener", egress.Policy{Self: self}, "https://93.184.216.99:8443/", egress.ClassSelf},
		{"our listener, though allowed", egress.Policy{Self: self, Allow: []string{"93.184.216.99:8443"}}, "https://93.184.216.99:8443/", egress.ClassSelf},
		{"beside our listener", egress.Policy{Self: self}, "https://93.184.216.99/", ""},
		{"our listener on every address", egress.Policy{Self: self, AllowLoopback: true}, "https://127.0.0.1:8080/", egress.ClassSelf},
		{"our public host", egress.Policy{SelfHosts: []string{"hooks.example.test"}}, "https://Hooks.example.test/x", egress.ClassSelf},
		{"our public host's other port", egress.Policy{SelfHosts: []string{"hooks.example.test"}}, "https://hooks.example.test:8443/x", ""},
		{"our public host by port", egress.Policy{SelfHosts: []string{"hooks.example.test:8443"}}, "https://hooks.example.test:8443/x", egress.ClassSelf},
		{"our public host as an address", egress.Policy{SelfHosts: []string{"93.184.216.98"}}, "https://93.184.216.98/", egress.ClassSelf},
		{"NAT64 by default", egress.Policy{}, "https://[64:ff9b::5db8:d822]/", egress.ClassTransition},
		{"NAT64 opted in", egress.Policy{Allow: []string{"64:ff9b::/96"}}, "https://[64:ff9b::5db8:d822]/", ""},
		{"NAT64 to loopback", egress.Policy{Allow: []string{"64:ff9b::/96"}}, "https://[64:ff9b::7f00:1]/", egress.ClassTransition},
		{"NAT64 to a private address", egress.Policy{Allow: []string{"64:ff9b::/96"}}, "https://[64:ff9b::a00:5]/", egress.ClassTransition},
		{"NAT64 to a private address that is open", egress.Policy{Allow: []string{"64:ff9b::/96", "10.0.0.0/8"}}, "https://[64:ff9b::a00:5]/", ""},
		{"ports of one's own", egress.Policy{Ports: []egress.PortRange{{First: 8443, Last: 8444}}}, "https://93.184.216.34:8444/", ""},
		{"outside of them", egress.Policy{Ports: []egress.PortRange{{First: 8443, Last: 8444}}}, "https://93.184.216.34/", egress.ClassPort},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := egress.ParseURL(c.url, c.policy)
			var refused *egress.URLError
			switch {
			case c.class == "" && err != nil:
				t.Errorf("%s is refused: %v", c.url, err)
			case c.class != "" && !errors.As(err, &refused):
				t.Errorf("%s: got %v, want it refused as %s", c.url, err, c.class)
			case c.class != "" && (refused.Class() != c.class || refused.Code != egress.CodeURLBlocked):
				t.Errorf("%s is refused as %s (%s), want %s", c.url, refused.Class(), refused.Code, c.class)
			}
		})
	}
}

func TestDefaultPortsAndTheirNeighbours(t *testing.T) {
	t.Parallel()
	for port, open := range map[string]bool{
		"1": false, "79": false, "80": true, "81": false, "442": false, "443": true, "444": false,
		"22": false, "25": false, "1023": false, "1024": true, "5432": true, "65535": true,
	} {
		_, err := egress.ParseURL("https://r.example.test:"+port+"/", egress.Policy{})
		if (err == nil) != open {
			t.Errorf("port %s: %v, want open %v", port, err, open)
		}
	}
}

func TestAPolicyThatDoesNotCompileRefusesEverything(t *testing.T) {
	t.Parallel()
	broken := egress.Policy{Allow: []string{"nonsense"}}
	if u, err := egress.ParseURL("https://r.example.test/", broken); !errors.Is(err, egress.ErrPolicy) || u != nil {
		t.Errorf("ParseURL: %v, %v, want ErrPolicy", u, err)
	}
	if c, err := egress.NewClient(egress.Config{Policy: broken}); !errors.Is(err, egress.ErrPolicy) || c != nil {
		t.Errorf("NewClient: %v, want ErrPolicy", err)
	}
	if _, err := egress.NewResolver("dns.example.test:53"); !errors.Is(err, egress.ErrPolicy) {
		t.Errorf("NewResolver: %v, want ErrPolicy", err)
	}
}
