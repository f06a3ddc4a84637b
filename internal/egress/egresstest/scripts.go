package egresstest

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// OK is an answer of 200 with a short body.
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// Response is an answer with a status and a body. More header lines may be given, as "Name: value".
func Response(status int, body string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, line := range header {
		b.WriteString(line + "\r\n")
	}
	if status != http.StatusNoContent && status != http.StatusNotModified {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

// Always answers every request with the same bytes, on a connection that stays open.
func Always(answer string) Script {
	return Each(func(c *Conn, _ *Request) bool { return c.Write(answer) })
}

// Each calls answer for every request on a connection, until it says that it is done.
func Each(answer func(c *Conn, req *Request) (more bool)) Script {
	return func(c *Conn) {
		for {
			req, err := c.Read()
			if err != nil || !answer(c, req) {
				return
			}
		}
	}
}

// Once reads one request, answers with bytes (none, if empty) and closes.
func Once(answer string) Script {
	return Each(func(c *Conn, _ *Request) bool { c.Write(answer); return false })
}

// InTurn runs a script for each connection in turn; the last one runs for all that follow.
func InTurn(scripts ...Script) Script {
	return func(c *Conn) { scripts[min(c.ID, len(scripts)-1)](c) }
}

// Canary is a script for a place that nothing may reach: a connection fails the test.
func Canary(t testing.TB) Script {
	return func(c *Conn) { t.Errorf("egresstest: the canary was reached") }
}

// ClosedPort is an address on loopback that refuses connections.
func ClosedPort(t testing.TB) netip.AddrPort {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("egresstest: %v", err)
	}
	at := netip.MustParseAddrPort(listener.Addr().String())
	_ = listener.Close()
	return at
}
