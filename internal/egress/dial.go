package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// maxDialled is how many of a name's addresses are tried. They share the time to connect, so more would leave
// too little for each.
const maxDialled = 4

// minDialTime is the least time that an address is given while others wait behind it.
const minDialTime = time.Second

// Control is called with the concrete address of a socket before it connects; an error keeps it from doing so.
// It is the ControlContext of a net.Dialer.
type Control func(ctx context.Context, network, address string, c syscall.RawConn) error

// dialer makes connections. Its configuration never changes.
type dialer struct {
	guard    *guard
	resolver Resolver
	limit    time.Duration // for each of resolve, connect and handshake
	tls      *tls.Config
	extra    Control
}

// stepError is an error with the step at which it came.
type stepError struct {
	step step
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// dial connects to t: it resolves the name, has every answer judged, connects, and shakes hands where t is
// https. It writes how long each took into phases. No byte of a request is written. top is the connection as
// it is to be used.
func (d *dialer) dial(ctx context.Context, t target, phases *Phases) (s *socket, top net.Conn, err error) {
	addrs, err := d.resolve(ctx, t, phases)
	if err != nil {
		return nil, nil, &stepError{stepResolve, err}
	}
	if s, err = d.connect(ctx, t, addrs, phases); err != nil {
		return nil, nil, &stepError{stepConnect, err}
	}
	if !t.secure {
		return s, s, nil
	}
	if top, err = d.handshake(ctx, t, s, phases); err != nil {
		_ = s.Close()
		return nil, nil, &stepError{stepTLS, err}
	}
	return s, top, nil
}

// resolve returns the addresses that t may be reached at. One denied answer refuses them all: a name that
// leads inside as well as outside is either an attack or a mistake, and its owner should hear of it.
func (d *dialer) resolve(ctx context.Context, t target, phases *Phases) ([]netip.Addr, error) {
	addrs := []netip.Addr{t.addr}
	if !t.addr.IsValid() {
		ctx, cancel := context.WithTimeout(ctx, d.limit)
		defer cancel()
		began := time.Now()
		var err error
		addrs, err = d.resolver.LookupNetIP(ctx, "ip", t.host+".")
		phases.DNS = time.Since(began)
		if err != nil {
			return nil, err
		}
		if len(addrs) == 0 {
			return nil, errNoAddress
		}
	}
	for _, addr := range addrs {
		if class, ok := d.guard.judge(t.host, netip.AddrPortFrom(addr, t.port)); !ok {
			return nil, &refusal{class}
		}
	}
	return addrs[:min(len(addrs), maxDialled)], nil
}

// connect tries the addresses in the resolver's order, one after the other, until one answers.
func (d *dialer) connect(ctx context.Context, t target, addrs []netip.Addr, phases *Phases) (*socket, error) {
	began := time.Now()
	defer func() { phases.Connect = time.Since(began) }()
	var first error
	for i, addr := range addrs {
		left := d.limit - time.Since(began)
		if i > 0 && left < minDialTime/2 {
			break
		}
		share := min(left, max(left/time.Duration(len(addrs)-i), minDialTime))
		s, err := d.dialOne(ctx, t.host, netip.AddrPortFrom(addr.Unmap(), t.port), share)
		if err == nil {
			return s, nil
		}
		var no *refusal
		if errors.As(err, &no) || ctx.Err() != nil {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func (d *dialer) dialOne(ctx context.Context, host string, at netip.AddrPort, limit time.Duration) (*socket, error) {
	// No keep-alive probes: a connection lives for a minute at most. No fallback: there is one address.
	nd := net.Dialer{Timeout: limit, KeepAlive: -1, FallbackDelay: -1, ControlContext: control(d.guard, host, d.extra)}
	conn, err := nd.DialContext(ctx, "tcp", at.String())
	if err != nil {
		if at.Addr().Is6() && errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, syscall.ENETUNREACH // this machine has no IPv6; for IPv4 it means that no port is left
		}
		return nil, err
	}
	s, err := newSocket(conn)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

// control is the last layer of the guard: it judges the address that the kernel is about to connect to,
// wherever that address came from. extra is asked only about what passed.
func control(g *guard, host string, extra Control) Control {
	return func(ctx context.Context, network, address string, c syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return &refusal{ClassInvalid}
		}
		if class, ok := g.judge(host, at); !ok {
			return &refusal{class}
		}
		if extra != nil {
			return extra(ctx, network, address, c)
		}
		return nil
	}
}

func (d *dialer) handshake(ctx context.Context, t target, s *socket, phases *Phases) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	began := time.Now()
	config := d.tls.Clone()
	config.ServerName = t.host
	conn := tls.Client(s, config)
	err := conn.HandshakeContext(ctx)
	phases.TLS = time.Since(began)
	if err != nil {
		return nil, err
	}
	return conn, nil
}
