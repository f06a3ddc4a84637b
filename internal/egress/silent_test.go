//go:build linux

package egress_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
)

// silentPort is a place on loopback where connecting gets no answer at all: a listener whose queue is full.
func silentPort(t testing.TB) string {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func() int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		check(err)
		t.Cleanup(func() { _ = syscall.Close(fd) })
		return fd
	}
	listener := open()
	check(syscall.Bind(listener, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	check(syscall.Listen(listener, 0))
	name, err := syscall.Getsockname(listener)
	check(err)
	at, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("bound to %T", name)
	}
	for range 4 { // the queue holds one or two
		if err := syscall.Connect(open(), at); err != nil && !errors.Is(err, syscall.EINPROGRESS) {
			t.Fatal(err)
		}
	}
	return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
}
