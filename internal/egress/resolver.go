package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// Resolver turns a name into addresses; *net.Resolver is one. The name it is asked for ends in a dot, so that
// no search list is tried. It must return when its context ends.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// NewResolver returns a resolver that asks the DNS server at ip:port, or the system's servers where server is
// empty. It is Go's own resolver in both cases: it holds no thread while it waits, and its errors have types.
// It caches nothing. A hosts file is consulted as the system says.
func NewResolver(server string) (*net.Resolver, error) {
	if server == "" {
		return &net.Resolver{PreferGo: true}, nil
	}
	at, err := netip.ParseAddrPort(server)
	if err != nil || at.Port() == 0 {
		return nil, fmt.Errorf("%w: resolver: %q is not ip:port", ErrPolicy, server)
	}
	address := at.String()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return &net.Resolver{PreferGo: true, Dial: dial}, nil
}
