package egresstest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Patience is how long a wait for something that must happen lasts before it fails the test.
const Patience = 20 * time.Second

// Receiver listens on loopback, logs every byte that arrives and answers as its script says, or not at all.
type Receiver struct {
	t        testing.TB
	script   Script
	tls      *tls.Config
	listener net.Listener
	done     chan struct{} // closed at the end of the test
	running  sync.WaitGroup

	mu       sync.Mutex
	conns    []*Conn
	requests []Request
	changed  chan struct{} // closed and replaced at each change
}

// Script says what happens on one connection. It runs on a goroutine of its own; when it returns, the
// connection is closed. At the end of the test the connection is closed under it.
type Script func(c *Conn)

// Request is a request as it arrived.
type Request struct {
	Conn   int // which connection, from 0
	Method string
	Target string
	Host   string
	Header http.Header
	Body   []byte
	Raw    []byte    // all its bytes
	Began  time.Time // its first bytes were there
	Ended  time.Time // its last ones
}

// Connection is what became of a connection.
type Connection struct {
	Accepted time.Time
	Chunks   []Chunk
	Closed   bool // by either side
}

// Chunk is what one read returned.
type Chunk struct {
	At    time.Time
	Bytes []byte
}

// NewReceiver starts a receiver on 127.0.0.1. It ends with the test, and waits for its scripts.
func NewReceiver(t testing.TB, script Script) *Receiver { return start(t, script, nil) }

// NewTLSReceiver starts one that speaks TLS; bytes are logged as they were before encryption. Failed handshakes
// leave a connection without bytes.
func NewTLSReceiver(t testing.TB, script Script, config *tls.Config) *Receiver {
	return start(t, script, config)
}

func start(t testing.TB, script Script, config *tls.Config) *Receiver {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("egresstest: %v", err)
	}
	r := &Receiver{t: t, script: script, tls: config, listener: listener, done: make(chan struct{}), changed: make(chan struct{})}
	r.running.Go(r.accept)
	t.Cleanup(func() {
		close(r.done)
		_ = listener.Close()
		for _, c := range r.all() {
			_ = c.tcp.Close()
		}
		r.running.Wait()
	})
	return r
}

func (r *Receiver) accept() {
	for {
		tcp, err := r.listener.Accept()
		if err != nil {
			return
		}
		c := &Conn{receiver: r, tcp: tcp.(*net.TCPConn), stream: tcp, accepted: time.Now()}
		if r.tls != nil {
			c.stream = tls.Server(tcp, r.tls)
		}
		c.in = bufio.NewReader(logged{c})
		r.mu.Lock()
		c.ID = len(r.conns)
		r.conns = append(r.conns, c)
		r.signal()
		r.mu.Unlock()
		r.running.Go(func() {
			defer c.Close()
			r.script(c)
		})
	}
}

// signal tells waiters that something changed. r.mu is held.
func (r *Receiver) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Receiver) all() []*Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Conn(nil), r.conns...)
}

// Addr is where it listens.
func (r *Receiver) Addr() netip.AddrPort {
	return netip.MustParseAddrPort(r.listener.Addr().String())
}

// URL is its address and a path.
func (r *Receiver) URL(path string) string { return r.URLFor("127.0.0.1", path) }

// URLFor is its URL by another host, which a Resolver has to know.
func (r *Receiver) URLFor(host, path string) string {
	scheme := "http"
	if r.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + host + ":" + strconv.Itoa(int(r.Addr().Port())) + path
}

// Requests returns the requests that arrived whole, in that order.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request(nil), r.requests...)
}

// Connections returns the connections that were made.
func (r *Receiver) Connections() []Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	conns := make([]Connection, len(r.conns))
	for i, c := range r.conns {
		conns[i] = Connection{Accepted: c.accepted, Chunks: append([]Chunk(nil), c.chunks...), Closed: c.closed}
	}
	return conns
}

// WaitRequests waits until n requests have arrived, and returns all.
func (r *Receiver) WaitRequests(n int) []Request {
	r.t.Helper()
	r.wait(fmt.Sprintf("%d requests", n), func() bool { return len(r.requests) >= n })
	return r.Requests()
}

// WaitClosed waits until connection n, counted from 0, is closed.
func (r *Receiver) WaitClosed(n int) {
	r.t.Helper()
	r.wait(fmt.Sprintf("connection %d to close", n), func() bool { return len(r.conns) > n && r.conns[n].closed })
}

// wait waits for a condition, which is asked under r.mu.
func (r *Receiver) wait(what string, ok func() bool) {
	r.t.Helper()
	timeout := time.After(Patience)
	for {
		r.mu.Lock()
		met, changed := ok(), r.changed
		r.mu.Unlock()
		if met {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			r.t.Fatalf("egresstest: waited in vain for %s", what)
		}
	}
}

// Conn is a connection in the hands of a script.
type Conn struct {
	ID int // from 0, in the order of accepting

	receiver *Receiver
	tcp      *net.TCPConn
	stream   net.Conn // tcp, or TLS upon it
	in       *bufio.Reader
	accepted time.Time

	// Under receiver.mu:
	chunks []Chunk
	closed bool
}

// logged reads a connection and logs what it reads.
type logged struct{ c *Conn }

func (l logged) Read(p []byte) (int, error) {
	n, err := l.c.stream.Read(p)
	r := l.c.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 {
		l.c.chunks = append(l.c.chunks, Chunk{At: time.Now(), Bytes: bytes.Clone(p[:n])})
	}
	if err != nil {
		l.c.closed = true
	}
	r.signal()
	return n, err
}

// Stream is the connection itself, decrypted, for scripts that speak something else; what is read through it
// is logged.
func (c *Conn) Stream() net.Conn { return loggedConn{c.stream, c.in} }

// Raw is the connection as it is, for scripts that log nothing.
func (c *Conn) Raw() net.Conn { return c.stream }

type loggedConn struct {
	net.Conn
	in *bufio.Reader
}

func (l loggedConn) Read(p []byte) (int, error) { return l.in.Read(p) }

// Protocol is what the handshake chose, for TLS.
func (c *Conn) Protocol() string {
	secure, ok := c.stream.(*tls.Conn)
	if !ok || secure.Handshake() != nil {
		return ""
	}
	return secure.ConnectionState().NegotiatedProtocol
}

// ReadHead reads a request up to the end of its header and leaves the body unread. It is not logged as a
// request.
func (c *Conn) ReadHead() (*Request, error) {
	req := &Request{Conn: c.ID}
	for {
		line, err := c.in.ReadSlice('\n')
		if req.Raw == nil && len(line) > 0 {
			req.Began = time.Now()
		}
		req.Raw = append(req.Raw, line...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if bytes.HasSuffix(req.Raw, []byte("\r\n\r\n")) {
			break
		}
	}
	parsed, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(req.Raw)))
	if err != nil {
		return nil, err
	}
	req.Method, req.Target, req.Host, req.Header = parsed.Method, parsed.RequestURI, parsed.Host, parsed.Header
	return req, nil
}

// Read reads a whole request, framed by its Content-Length, and logs it.
func (c *Conn) Read() (*Request, error) {
	req, err := c.ReadHead()
	if err != nil {
		return nil, err
	}
	length, err := strconv.Atoi(req.Header.Get("Content-Length"))
	if err != nil {
		return nil, fmt.Errorf("egresstest: a request without Content-Length: %w", err)
	}
	req.Body = make([]byte, length)
	if _, err := io.ReadFull(c.in, req.Body); err != nil {
		return nil, err
	}
	req.Raw, req.Ended = append(req.Raw, req.Body...), time.Now()
	c.Log(*req)
	return req, nil
}

// Log adds a request to the receiver's, for scripts that read it in their own way.
func (c *Conn) Log(req Request) {
	r := c.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	req.Conn = c.ID
	r.requests = append(r.requests, req)
	r.signal()
}

// Write sends bytes as they are, and tells whether they could be sent.
func (c *Conn) Write(text string) bool {
	_, err := io.WriteString(c.stream, text)
	return err == nil
}

// Drip sends bytes one at a time, each after a pause, and tells whether they could be sent.
func (c *Conn) Drip(text string, pause time.Duration) bool {
	for i := range len(text) {
		if !c.Write(text[i:i+1]) || !c.Pause(pause) {
			return false
		}
	}
	return true
}

// Pause waits, and tells whether the test still runs.
func (c *Conn) Pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.receiver.done:
		return false
	}
}

// Hang reads on and answers nothing, until the other side closes or the test ends.
func (c *Conn) Hang() { _, _ = io.Copy(io.Discard, c.in) }

// Idle neither reads nor answers until the test ends.
func (c *Conn) Idle() { <-c.receiver.done }

// Close closes the connection, in the ordinary way.
func (c *Conn) Close() {
	_ = c.stream.Close()
	r := c.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	c.closed = true
	r.signal()
}

// Reset breaks the connection off with an RST.
func (c *Conn) Reset() {
	_ = c.tcp.SetLinger(0)
	_ = c.tcp.Close()
}
