//go:build linux

// Package netroom is a room that nothing can leave: a network namespace of the test's own with nothing in it but
// loopback. Addresses that belong to somebody else outside are harmless in it, so a gateway can be held to its production
// settings there, with canaries on the addresses that it must never reach.
package netroom

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// inside marks a test binary that runs in a room.
const inside = "GATEWAY_TEST_ROOM"

// Addresses of the room. Public ones look to the guard as any receiver's do; canaries stand where nothing may go.
var (
	publicAddrs = [...]string{"93.184.216.10", "93.184.216.11", "2606:4700::10"}
	canaryAddrs = [...]string{"127.0.0.1", "::1", "169.254.169.254", "10.0.0.5", "172.16.0.5", "192.168.0.5", "100.64.0.5", "168.63.129.16", "fd00:ec2::254"}
)

// CanaryPorts are where each canary listens.
func CanaryPorts() []uint16 { return []uint16{80, 443, 8080} }

// Room is the inside.
type Room struct {
	mu    sync.Mutex
	heard []string
}

// Enter runs the calling test again, alone, in a room of its own, and returns nil out here once that has ended: the
// test then returns. In there it returns the room. It fails the test where the room isn't empty.
func Enter(t *testing.T) *Room {
	t.Helper()
	if os.Getenv(inside) == "" {
		again(t)
		return nil
	}
	r := new(Room)
	if err := r.furnish(t); err != nil {
		t.Fatalf("this is no room: %v", err)
	}
	return r
}

// again runs this test in a new namespace.
func again(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 { // a user may have one too, as the root of a user namespace
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in the room: %v\n%s", err, out)
	}
}

// furnish checks that the room is one, gives loopback its addresses, and sets up the canaries.
func (r *Room) furnish(t *testing.T) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	var lo netlink.Link
	for _, link := range links {
		switch {
		case link.Attrs().Name == "lo":
			lo = link
		case link.Attrs().Flags&net.FlagUp != 0:
			return fmt.Errorf("it has a way out, %s", link.Attrs().Name)
		}
	}
	if lo == nil {
		return errors.New("it has no loopback")
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	if len(routes) > 0 {
		return fmt.Errorf("it has routes: %v", routes)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	for _, text := range append(publicAddrs[:], canaryAddrs[:]...) {
		addr := netip.MustParseAddr(text)
		if addr.IsLoopback() {
			continue // comes with the link
		}
		bits := addr.BitLen()
		entry := &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, bits)}, Flags: 0x02} // IFA_F_NODAD
		if err := netlink.AddrAdd(lo, entry); err != nil {
			return fmt.Errorf("add %s: %w", text, err)
		}
	}
	for _, text := range canaryAddrs {
		for _, port := range CanaryPorts() {
			if err := r.canary(t, netip.AddrPortFrom(netip.MustParseAddr(text), port)); err != nil {
				return err
			}
		}
	}
	return nil
}

// canary listens where nothing may connect.
func (r *Room) canary(t *testing.T, at netip.AddrPort) error {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.heard = append(r.heard, at.String())
			r.mu.Unlock()
			conn.Close()
		}
	}()
	return nil
}

// Heard is what the canaries have heard: an address for each connection.
func (r *Room) Heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.heard...)
}

// Public are the addresses that a receiver may have.
func (r *Room) Public() []netip.Addr { return parse(publicAddrs[:]) }

// Canaries are the addresses that must never be reached.
func (r *Room) Canaries() []netip.Addr { return parse(canaryAddrs[:]) }

func parse(texts []string) []netip.Addr {
	addrs := make([]netip.Addr, len(texts))
	for i, text := range texts {
		addrs[i] = netip.MustParseAddr(text)
	}
	return addrs
}
