package egresstest

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
)

// LoopbackOnly is a Control for egress.Config that fails the test, before anything is sent, if a socket is
// about to connect to anything but loopback.
func LoopbackOnly(t testing.TB) func(ctx context.Context, network, address string, c syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil && at.Addr().Unmap().IsLoopback() {
			return nil
		}
		t.Errorf("egresstest: a socket was about to leave the machine: %s %s", network, address)
		return fmt.Errorf("egresstest: %s is not loopback", address)
	}
}
