//go:build linux

package netroom_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
	"github.com/sallyport-dev/sallyport/internal/gatewaytest/netroom"
)

// At production settings the client reaches a receiver at a public address, and no canary whatever a name leads to.
func TestProductionSettings(t *testing.T) {
	room := netroom.Enter(t)
	if room == nil {
		return
	}
	authority := egresstest.NewAuthority(t)
	arrived := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		arrived++
		w.WriteHeader(http.StatusNoContent)
	}))
	l, err := net.Listen("tcp", netip.AddrPortFrom(room.Public()[0], 443).String())
	if err != nil {
		t.Fatal(err)
	}
	server.Listener.Close()
	server.Listener = l
	server.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Certificate("hooks.test")}}
	server.StartTLS()
	defer server.Close()

	resolver := egresstest.NewResolver(t)
	client, err := egress.NewClient(egress.Config{Resolver: resolver, RootCAs: authority.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	post := func(url string) egress.Result {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return client.Post(ctx, egress.Request{URL: url, Body: []byte("{}"), Timeout: 2 * time.Second})
	}

	resolver.Script("hooks.test", egresstest.Addrs(room.Public()[0].String()))
	if res := post("https://hooks.test/in"); res.Status != http.StatusNoContent || arrived != 1 {
		t.Errorf("the receiver: %+v, %d requests", res, arrived)
	}
	for _, addr := range room.Canaries() {
		resolver.Script("inside.test", egresstest.Addrs(addr.String()))
		if res := post("https://inside.test/"); res.Fault != egress.FaultBlocked || res.Sent != egress.SentNo {
			t.Errorf("a name that leads to %s: %+v", addr, res)
		}
		resolver.Script("mixed.test", egresstest.Addrs(room.Public()[0].String(), addr.String()))
		if res := post("https://mixed.test/"); res.Fault != egress.FaultBlocked {
			t.Errorf("a name that leads to %s too: %+v", addr, res)
		}
		literal := "https://" + netip.AddrPortFrom(addr, 443).String() + "/"
		if res := post(literal); res.Fault != egress.FaultBlocked {
			t.Errorf("%s: %+v", literal, res)
		}
	}
	if heard := room.Heard(); len(heard) > 0 {
		t.Errorf("canaries heard %v", heard)
	}
}

// A canary must be able to hear, or its silence says nothing.
func TestCanariesHear(t *testing.T) {
	room := netroom.Enter(t)
	if room == nil {
		return
	}
	for i, addr := range room.Canaries() {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(addr, 80).String(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, conn) // ends when the canary has heard
		conn.Close()
		if heard := room.Heard(); len(heard) != i+1 {
			t.Errorf("after %d connections the canaries heard %v", i+1, heard)
		}
	}
	// Nothing leads out: an address that nobody in the room has is unreachable.
	if conn, err := net.DialTimeout("tcp", "93.184.217.1:80", time.Second); err == nil {
		conn.Close()
		t.Error("there is a way out of the room")
	}
}
