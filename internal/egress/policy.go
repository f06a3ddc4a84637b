package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ErrPolicy is wrapped by every error about a Policy that can't be used.
var ErrPolicy = errors.New("egress policy")

// Policy says where deliveries may go, as data. The zero value is the strict default: https to public
// addresses on ports 80, 443 and 1024–65535.
type Policy struct {
	// AllowLoopback opens 127.0.0.0/8, ::1 and the names of localhost. A development setting.
	AllowLoopback bool
	// AllowHTTP takes http URLs too. Without it https is required.
	AllowHTTP bool
	// Allow opens what the address tables deny: CIDR blocks, addresses, and single targets as ip:port or
	// host:port, which also open their port. It never opens loopback, link-local or unspecified addresses.
	Allow []string
	// Deny closes more, in the same forms, and wins over Allow.
	Deny []string
	// Ports that may be used; nil means DefaultPorts.
	Ports []PortRange
	// Self are our own listeners, refused whatever else says so. An unspecified address (0.0.0.0, ::) stands
	// for every loopback address; a caller that listens so adds the addresses of its interfaces.
	Self []netip.AddrPort
	// SelfHosts are our public hosts as host or host:port (a bare host stands for ports 80 and 443), refused
	// by name.
	SelfHosts []string
}

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last uint16 }

// DefaultPorts are the web's own ports and those an unprivileged service can have. Below 1024 stand mail,
// ssh, DNS and the like, whose protocols an HTTP request can be smuggled into.
func DefaultPorts() []PortRange {
	return []PortRange{{80, 80}, {443, 443}, {1024, 65535}}
}

// ParsePorts reads ranges as "80,443,1024-65535". Empty text means DefaultPorts.
func ParsePorts(text string) ([]PortRange, error) {
	if strings.TrimSpace(text) == "" {
		return DefaultPorts(), nil
	}
	var ranges []PortRange
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, ok1 := parsePort(strings.TrimSpace(first))
		to, ok2 := parsePort(strings.TrimSpace(last))
		if !ok1 || !ok2 || from > to {
			return nil, fmt.Errorf("%w: ports: %q is not a port or a range of ports", ErrPolicy, part)
		}
		ranges = append(ranges, PortRange{from, to})
	}
	return ranges, nil
}

// parsePort reads a port from 1 to 65535: digits only, no leading zero.
func parsePort(text string) (uint16, bool) {
	if text == "" || len(text) > 5 || text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil
}

// Validate reports everything that is wrong with p at once, each problem wrapping ErrPolicy.
func (p Policy) Validate() error {
	_, err := p.compile()
	return err
}

// guard is a Policy made ready to be asked.
type guard struct {
	allowLoopback, allowHTTP bool
	allow, deny              rules
	ports                    []PortRange
	self                     []netip.AddrPort
	selfHosts                map[hostPort]struct{}
}

// rules is one of an operator's two lists.
type rules struct {
	prefixes []netip.Prefix
	targets  map[hostPort]struct{} // exact; an address stands as its text
}

// hostPort names a target: host is a canonical name, or an address as netip prints it.
type hostPort struct {
	host string
	port uint16
}

func (p Policy) compile() (*guard, error) {
	g := &guard{allowLoopback: p.AllowLoopback, allowHTTP: p.AllowHTTP, ports: p.Ports, selfHosts: map[hostPort]struct{}{}}
	var problems []error
	problem := func(list, entry, why string) {
		problems = append(problems, fmt.Errorf("%w: %s: %q %s", ErrPolicy, list, entry, why))
	}
	for _, entry := range p.Allow {
		if why := g.allow.add(entry); why != "" {
			problem("allow", entry, why)
		} else if c, closed := alwaysClosed(entry); closed {
			problem("allow", entry, "is "+string(c)+", which an allow list can't open")
		}
	}
	for _, entry := range p.Deny {
		if why := g.deny.add(entry); why != "" {
			problem("deny", entry, why)
		}
	}
	if g.ports == nil {
		g.ports = DefaultPorts()
	}
	for _, r := range g.ports {
		if r.First == 0 || r.First > r.Last {
			problem("ports", fmt.Sprintf("%d-%d", r.First, r.Last), "is no range of ports")
		}
	}
	for _, at := range p.Self {
		if !at.IsValid() || at.Port() == 0 {
			problem("self", at.String(), "is no address with a port")
			continue
		}
		g.self = append(g.self, netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()))
	}
	for _, entry := range p.SelfHosts {
		if why := g.addSelfHost(entry); why != "" {
			problem("self", entry, why)
		}
	}
	return g, errors.Join(problems...)
}

// add reads one entry of a list and says what is wrong with it, if anything.
func (r *rules) add(entry string) (why string) {
	if strings.Contains(entry, "/") {
		prefix, err := netip.ParsePrefix(entry)
		switch {
		case err != nil:
			return "is no CIDR block"
		case prefix.Addr().Is4In6():
			return "is IPv4 written as IPv6: write it as IPv4"
		case prefix != prefix.Masked():
			return "has bits beyond its mask: did you mean " + prefix.Masked().String() + "?"
		}
		r.prefixes = append(r.prefixes, prefix)
		return ""
	}
	if addr, err := netip.ParseAddr(entry); err == nil {
		if addr.Zone() != "" || addr.Is4In6() {
			return "is no plain address"
		}
		r.prefixes = append(r.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
		return ""
	}
	target, why := parseHostPort(entry)
	if why != "" {
		return why
	}
	if r.targets == nil {
		r.targets = map[hostPort]struct{}{}
	}
	r.targets[target] = struct{}{}
	return ""
}

// parseHostPort reads ip:port, [ip]:port or host:port.
func parseHostPort(entry string) (target hostPort, why string) {
	host, portText, ok := splitAuthority(entry)
	if !ok || portText == "" {
		return hostPort{}, "is neither a CIDR block, an address, ip:port nor host:port"
	}
	port, ok := parsePort(portText)
	if !ok {
		return hostPort{}, "has no port from 1 to 65535"
	}
	name, addr, err := canonicalHost(host)
	if err != nil {
		return hostPort{}, "has no usable host: " + err.Detail
	}
	if addr.IsValid() {
		name = addr.String()
	}
	return hostPort{name, port}, ""
}

func (g *guard) addSelfHost(entry string) (why string) {
	for _, suffix := range []string{"", ":80", ":443"} {
		if target, why := parseHostPort(entry + suffix); why == "" {
			g.selfHosts[target] = struct{}{}
			if suffix == "" {
				return ""
			}
		} else if suffix != "" {
			return why
		}
	}
	return ""
}

// alwaysClosed tells whether an entry of an allow list lies whole in a class that no list can open, so that
// it would silently do nothing.
func alwaysClosed(entry string) (Class, bool) {
	var first, last netip.Addr
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		first, last = prefix.Addr(), lastOf(prefix)
	} else if addr, err := netip.ParseAddr(entry); err == nil {
		first, last = addr, addr
	} else if at, err := netip.ParseAddrPort(entry); err == nil {
		first, last = at.Addr(), at.Addr()
	} else {
		target, _ := parseHostPort(entry)
		return ClassLoopback, isLocalName(target.host)
	}
	c := Classify(first)
	return c, c == Classify(last) && c != ClassPublic && !c.liftable()
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

func (r *rules) covers(addr netip.Addr) bool {
	for _, prefix := range r.prefixes {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

func (r *rules) names(host string, at netip.AddrPort) bool {
	if len(r.targets) == 0 {
		return false
	}
	_, byHost := r.targets[hostPort{host, at.Port()}]
	if byHost || !at.IsValid() {
		return byHost
	}
	_, byAddr := r.targets[hostPort{at.Addr().String(), at.Port()}]
	return byAddr
}

// judge decides whether a connection for host may go to at. host is the canonical host of the URL. The class
// says why not; where ok, it says what the address is. Pure.
func (g *guard) judge(host string, at netip.AddrPort) (c Class, ok bool) {
	addr := at.Addr()
	if c := Classify(addr); c == ClassInvalid {
		return c, false
	}
	addr = addr.Unmap()
	at = netip.AddrPortFrom(addr, at.Port())
	if g.isSelf(at) {
		return ClassSelf, false
	}
	if g.deny.covers(addr) || g.deny.names(host, at) {
		return ClassDenied, false
	}
	named := g.allow.names(host, at)
	if c = Classify(addr); !g.open(c, addr, named) {
		return c, false
	}
	if !named && !g.portOpen(at.Port()) {
		return ClassPort, false
	}
	return c, true
}

// open decides by address alone; named tells that the operator listed this very target.
func (g *guard) open(c Class, addr netip.Addr, named bool) bool {
	switch {
	case c == ClassPublic:
		return true
	case c == ClassLoopback:
		return g.allowLoopback
	case !c.liftable() || !named && !g.allow.covers(addr):
		return false
	}
	// A network behind NAT64 opens its prefix, and with it every IPv4 address there is: the one that is meant
	// must stand the test by itself.
	if v4, ok := embeddedIPv4(addr); ok {
		c := Classify(v4)
		return c == ClassPublic && !g.deny.covers(v4) || c.liftable() && g.allow.covers(v4)
	}
	return true
}

// judgeName decides what can be decided about a name before it is resolved.
func (g *guard) judgeName(host string, port uint16) (c Class, ok bool) {
	target := hostPort{host, port}
	if _, self := g.selfHosts[target]; self {
		return ClassSelf, false
	}
	if _, denied := g.deny.targets[target]; denied {
		return ClassDenied, false
	}
	if isLocalName(host) && !g.allowLoopback {
		return ClassLoopback, false
	}
	if isMetadataName(host) {
		return ClassPlatform, false
	}
	if _, named := g.allow.targets[target]; !named && !g.portOpen(port) {
		return ClassPort, false
	}
	return ClassPublic, true
}

func (g *guard) portOpen(port uint16) bool {
	for _, r := range g.ports {
		if r.First <= port && port <= r.Last {
			return true
		}
	}
	return false
}

func (g *guard) isSelf(at netip.AddrPort) bool {
	for _, own := range g.self {
		if own.Port() != at.Port() {
			continue
		}
		if own.Addr() == at.Addr() || own.Addr().IsUnspecified() && at.Addr().IsLoopback() {
			return true
		}
	}
	_, byHost := g.selfHosts[hostPort{at.Addr().String(), at.Port()}]
	return byHost
}
