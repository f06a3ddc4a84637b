package egress

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
)

// errIdle is what a probe reads from a healthy idle connection: nothing is there. It looks like a time limit,
// which crypto/tls doesn't take for the end of a connection.
var errIdle net.Error = idleError{}

type idleError struct{}

func (idleError) Error() string   { return "nothing to read" }
func (idleError) Timeout() bool   { return true }
func (idleError) Temporary() bool { return true }

// socket is a TCP connection that knows how many bytes the kernel took, and that can be read without waiting.
// It lies below TLS. (An interface is embedded, not *net.TCPConn: its ReadFrom would pass by the counting.)
type socket struct {
	net.Conn
	raw     syscall.RawConn
	written atomic.Int64
	broken  atomic.Bool // a write failed: nothing written later arrives whole
	probing bool        // owned by whoever holds the connection for a request
}

func newSocket(conn net.Conn) (*socket, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.New("not a TCP connection")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &socket{Conn: tcp, raw: raw}, nil
}

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.written.Add(int64(n))
	if err != nil {
		s.broken.Store(true)
	}
	return n, err
}

func (s *socket) Read(p []byte) (int, error) {
	if s.probing {
		return readNow(s.raw, p)
	}
	return s.Conn.Read(p)
}

// alive tells whether an idle connection can carry another request: it is open and nothing waits to be read.
// top is the connection as it is used, the socket itself or TLS upon it; TLS deals with what belongs to it,
// such as session tickets. A peer that has closed is found here as soon as its FIN has arrived, so that a
// request is lost to it only where the two cross on the way.
func (s *socket) alive(top io.Reader) bool {
	s.probing = true
	defer func() { s.probing = false }()
	var one [1]byte
	n, err := top.Read(one[:])
	return n == 0 && errors.Is(err, errIdle)
}
