package egress_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/egress"
)

// denied is every block that must not be public, with its class where the block has one. It is written apart
// from the product's tables, so that a slip in one shows against the other.
var denied = []struct {
	cidr  string
	class egress.Class
}{
	{"0.0.0.0/8", egress.ClassUnspecified},
	{"10.0.0.0/8", egress.ClassPrivate},
	{"100.64.0.0/10", egress.ClassShared},
	{"127.0.0.0/8", egress.ClassLoopback},
	{"168.63.129.16/32", egress.ClassPlatform},
	{"169.254.0.0/16", egress.ClassLinkLocal},
	{"172.16.0.0/12", egress.ClassPrivate},
	{"192.0.0.0/24", egress.ClassReserved},
	{"192.0.2.0/24", egress.ClassDocumentation},
	{"192.88.99.0/24", egress.ClassTransition},
	{"192.168.0.0/16", egress.ClassPrivate},
	{"198.18.0.0/15", egress.ClassBenchmark},
	{"198.51.100.0/24", egress.ClassDocumentation},
	{"203.0.113.0/24", egress.ClassDocumentation},
	{"224.0.0.0/4", egress.ClassMulticast},
	{"240.0.0.0/4", egress.ClassReserved},
	{"::/128", egress.ClassUnspecified},
	{"::1/128", egress.ClassLoopback},
	{"64:ff9b::/96", egress.ClassTransition},
	{"64:ff9b:1::/48", egress.ClassTransition},
	{"100::/64", egress.ClassReserved},
	{"2001::/32", egress.ClassTransition},
	{"2001:2::/48", egress.ClassReserved},
	{"2001:10::/28", egress.ClassReserved},
	{"2001:db8::/32", egress.ClassDocumentation},
	{"2002::/16", egress.ClassTransition},
	{"3fff::/20", egress.ClassDocumentation},
	{"5f00::/16", egress.ClassReserved},
	{"fc00::/7", egress.ClassPrivate},
	{"fe80::/10", egress.ClassLinkLocal},
	{"fec0::/10", egress.ClassPrivate},
	{"ff00::/8", egress.ClassMulticast},
}

// edges are where one verdict ends and the other begins: the last public address before a block, and the
// first after it, where there is such.
var edges = []string{
	"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
	"168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
	"191.255.255.255", "192.0.1.0", "192.0.1.255", "192.0.3.0", "192.88.98.255", "192.88.100.0",
	"192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0",
	"203.0.112.255", "203.0.114.0", "223.255.255.255",
	"2000::", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
	"2001:db9::", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	"3fff:1000::", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2606:4700::10", "93.184.216.34",
}

func TestClassifyNamesEveryDeniedBlock(t *testing.T) {
	t.Parallel()
	for _, d := range denied {
		prefix := netip.MustParsePrefix(d.cidr)
		for _, addr := range []netip.Addr{prefix.Addr(), lastOf(prefix)} {
			if got := egress.Classify(addr); got != d.class {
				t.Errorf("%s of %s is %s, want %s", addr, d.cidr, got, d.class)
			}
		}
	}
}

func TestClassifyLeavesTheNeighboursPublic(t *testing.T) {
	t.Parallel()
	for _, text := range edges {
		if got := egress.Classify(netip.MustParseAddr(text)); got != egress.ClassPublic {
			t.Errorf("%s is %s, want public", text, got)
		}
	}
}

// Each block's first and last address, and what lies just outside, against the naive model.
func TestClassifyAgreesWithTheModelAtEveryBoundary(t *testing.T) {
	t.Parallel()
	for _, d := range append(denied, struct {
		cidr  string
		class egress.Class
	}{cidr: "2000::/3"}, struct {
		cidr  string
		class egress.Class
	}{cidr: "2001::/23"}) {
		prefix := netip.MustParsePrefix(d.cidr)
		for _, addr := range []netip.Addr{prefix.Addr().Prev(), prefix.Addr(), prefix.Addr().Next(), lastOf(prefix).Prev(), lastOf(prefix), lastOf(prefix).Next()} {
			if addr.IsValid() {
				agree(t, addr)
			}
		}
	}
}

func TestClassifyJudgesWhatStandsBehindASpelling(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]egress.Class{
		"::ffff:127.0.0.1":        egress.ClassLoopback,
		"::ffff:10.0.0.5":         egress.ClassPrivate,
		"::ffff:169.254.169.254":  egress.ClassLinkLocal,
		"::ffff:93.184.216.34":    egress.ClassPublic,
		"::127.0.0.1":             egress.ClassEmbedded,
		"::ffff:0:127.0.0.1":      egress.ClassEmbedded,
		"64:ff9b::127.0.0.1":      egress.ClassTransition,
		"2002:7f00:1::":           egress.ClassTransition,
		"fe80::1%eth0":            egress.ClassInvalid,
		"2606:4700::10%eth0":      egress.ClassInvalid,
		"fd00:ec2::254":           egress.ClassPrivate,
		"255.255.255.255":         egress.ClassReserved,
		"4000::":                  egress.ClassReserved,
		"1fff:ffff::":             egress.ClassReserved,
		"2001:1ff:ffff:ffff::":    egress.ClassReserved,
		"2001:0:ffff:ffff::ffff":  egress.ClassTransition,
		"ffff::ffff:ffff":         egress.ClassMulticast,
		"fbff:ffff::":             egress.ClassReserved,
		"febf:ffff::":             egress.ClassLinkLocal,
		"::ff:ffff:ffff":          egress.ClassEmbedded,
		"100:0:0:1::":             egress.ClassReserved,
		"64:ff9b:2::":             egress.ClassEmbedded,
		"64:ff9b::1:0:0":          egress.ClassEmbedded,
		"64:ff9b:0:ffff:ffff::ff": egress.ClassEmbedded,
	} {
		if got := egress.Classify(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	if got := egress.Classify(netip.Addr{}); got != egress.ClassInvalid {
		t.Errorf("no address is %s, want invalid", got)
	}
}

func FuzzClassify(f *testing.F) {
	for _, d := range denied {
		f.Add(netip.MustParsePrefix(d.cidr).Addr().AsSlice())
	}
	for _, text := range edges {
		f.Add(netip.MustParseAddr(text).AsSlice())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if addr, ok := netip.AddrFromSlice(b); ok {
			agree(t, addr)
		}
	})
}

// agree compares Classify with a model that uses nothing of it: the net package's blocks, one by one.
func agree(t *testing.T, addr netip.Addr) {
	t.Helper()
	if got, want := egress.Classify(addr) == egress.ClassPublic, modelPublic(addr); got != want {
		t.Errorf("%s: public is %v, the model says %v", addr, got, want)
	}
}

func modelPublic(addr netip.Addr) bool {
	ip := net.IP(addr.AsSlice())
	if ip.To4() == nil && !contains("2000::/3", ip) || contains("2001::/23", ip) {
		return false
	}
	for _, d := range denied {
		if contains(d.cidr, ip) {
			return false
		}
	}
	return true
}

func contains(cidr string, ip net.IP) bool {
	_, block, err := net.ParseCIDR(cidr)
	return err == nil && block.Contains(ip)
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}
