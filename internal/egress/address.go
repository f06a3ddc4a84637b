package egress

import "net/netip"

// Class says what kind of place an address is, and for a refused target why it was refused. It is a closed
// set: the word is the log's reason and the metric's label. It is for the operator alone, never for a
// tenant: it would tell what stands behind a name.
type Class string

// What an address is.
const (
	ClassPublic        Class = "public"
	ClassLoopback      Class = "loopback"
	ClassPrivate       Class = "private"    // RFC 1918, unique local, the old site local
	ClassLinkLocal     Class = "link_local" // most clouds' metadata service among them
	ClassShared        Class = "shared"     // carrier-grade NAT
	ClassUnspecified   Class = "unspecified"
	ClassMulticast     Class = "multicast"
	ClassDocumentation Class = "documentation"
	ClassBenchmark     Class = "benchmark"
	ClassPlatform      Class = "platform"   // a cloud's own service on a public-looking address
	ClassTransition    Class = "transition" // IPv4 inside IPv6: NAT64, 6to4, Teredo, 6to4 relays
	ClassEmbedded      Class = "embedded"   // the rest of ::/8: IPv4-compatible, translated and other spellings
	ClassReserved      Class = "reserved"   // everything else that is not allocated to the public internet
	ClassInvalid       Class = "invalid"    // no address at all, or one with a zone
)

// What else can refuse a target.
const (
	ClassDenied   Class = "denied"   // the operator's deny list
	ClassSelf     Class = "self"     // one of our own listeners, or our public host
	ClassPort     Class = "port"     // a port outside the ranges
	ClassURL      Class = "url"      // a URL that registration would not have taken
	ClassInsecure Class = "insecure" // http where https is required
)

// classRange is one row of an address table.
type classRange struct {
	prefix netip.Prefix
	class  Class
}

func row(prefix string, class Class) classRange {
	return classRange{prefix: netip.MustParsePrefix(prefix), class: class}
}

// ipv4Denied lists what is not public in IPv4; what no row covers is public. Sources: IANA's special-purpose
// registry and multicast; 168.63.129.16 is Azure's wire server, reachable from every machine there.
var ipv4Denied = [...]classRange{
	row("0.0.0.0/8", ClassUnspecified),
	row("10.0.0.0/8", ClassPrivate),
	row("100.64.0.0/10", ClassShared),
	row("127.0.0.0/8", ClassLoopback),
	row("168.63.129.16/32", ClassPlatform),
	row("169.254.0.0/16", ClassLinkLocal),
	row("172.16.0.0/12", ClassPrivate),
	row("192.0.0.0/24", ClassReserved),
	row("192.0.2.0/24", ClassDocumentation),
	row("192.88.99.0/24", ClassTransition),
	row("192.168.0.0/16", ClassPrivate),
	row("198.18.0.0/15", ClassBenchmark),
	row("198.51.100.0/24", ClassDocumentation),
	row("203.0.113.0/24", ClassDocumentation),
	row("224.0.0.0/4", ClassMulticast),
	row("240.0.0.0/4", ClassReserved),
}

// ipv6Public is the one block of IPv6 that is allocated to the public internet. Everything outside it is
// refused by construction; ipv6Outside only gives the refusal its name.
var ipv6Public = netip.MustParsePrefix("2000::/3")

// ipv6Denied lists what is not public inside ipv6Public; the first row that covers an address names it.
var ipv6Denied = [...]classRange{
	row("2001::/32", ClassTransition), // Teredo
	row("2001::/23", ClassReserved),
	row("2001:db8::/32", ClassDocumentation),
	row("2002::/16", ClassTransition), // 6to4
	row("3fff::/20", ClassDocumentation),
}

// ipv6Outside names what lies outside ipv6Public; what no row covers is reserved.
var ipv6Outside = [...]classRange{
	row("::/128", ClassUnspecified),
	row("::1/128", ClassLoopback),
	row("64:ff9b::/96", ClassTransition),
	row("64:ff9b:1::/48", ClassTransition),
	row("::/8", ClassEmbedded),
	row("fc00::/7", ClassPrivate),
	row("fe80::/10", ClassLinkLocal),
	row("fec0::/10", ClassPrivate),
	row("ff00::/8", ClassMulticast),
}

// nat64 is the well-known prefix whose last 32 bits are the IPv4 address that is meant.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Classify says what kind of place addr is. An IPv4 address in IPv6 clothes (::ffff:0:0/96) is judged as the
// IPv4 address; an address with a zone is invalid. Pure.
func Classify(addr netip.Addr) Class {
	if !addr.IsValid() || addr.Zone() != "" {
		return ClassInvalid
	}
	addr = addr.Unmap()
	switch {
	case addr.Is4():
		return classIn(ipv4Denied[:], addr, ClassPublic)
	case ipv6Public.Contains(addr):
		return classIn(ipv6Denied[:], addr, ClassPublic)
	default:
		return classIn(ipv6Outside[:], addr, ClassReserved)
	}
}

func classIn(table []classRange, addr netip.Addr, otherwise Class) Class {
	for _, r := range table {
		if r.prefix.Contains(addr) {
			return r.class
		}
	}
	return otherwise
}

// liftable tells whether an operator's allow list may open addresses of class c. The others lead back into
// this machine or its link (an unspecified address connects to loopback), or are spellings of such.
func (c Class) liftable() bool {
	switch c {
	case ClassPrivate, ClassShared, ClassDocumentation, ClassBenchmark, ClassPlatform, ClassTransition, ClassReserved:
		return true
	default:
		return false
	}
}

// embeddedIPv4 returns the IPv4 address that an address of the NAT64 well-known prefix stands for.
func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
	if !nat64.Contains(addr) {
		return netip.Addr{}, false
	}
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}
