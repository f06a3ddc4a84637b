package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// Flow control, in bytes: a receiver can make us hold as much of its answers as we open windows for.
const (
	streamWindow = 64 << 10
	connWindow   = 1 << 20
)

// codeRefusedStream is HTTP/2's REFUSED_STREAM (RFC 9113 §7).
const codeRefusedStream = 0x7

// streamError is what errors.As fills from the HTTP/2 client's own, which net/http supports for a struct with
// these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "stream error" }

// isHTTP2Violation tells that the client closed an HTTP/2 connection since the peer broke its rules. net/http
// exports no type for that error, which is a bare error code: it goes by its kind, as errors.As does for a
// streamError. Without a match the fault reads "closed", which is true as well.
func isHTTP2Violation(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if reflect.TypeOf(err).Kind() == reflect.Uint32 {
			return true
		}
	}
	return false
}

// http2 carries requests over an HTTP/2 connection, many at a time. Its RoundTrip is that of one connection:
// it never repeats a request, whatever REFUSED_STREAM or GOAWAY say about its having been processed. Such a
// request was on the wire, so it is an attempt.
type http2 struct {
	sock    *socket
	conn    *http.ClientConn
	buffers *buffers
}

// newHTTP2 speaks the preface on a connection whose handshake chose h2. The transport serves this connection
// alone: net/http has no other way to hand it over. For a few kinds of misbehaviour it writes a line to the
// log package's logger, and can't be told not to; the line holds nothing that the peer sent.
func newHTTP2(ctx context.Context, s *socket, top *tls.Conn, limit time.Duration, b *buffers) (*http2, error) {
	var only http.Protocols
	only.SetHTTP2(true)
	t := &http.Transport{
		DialTLSContext:         func(context.Context, string, string) (net.Conn, error) { return top, nil },
		Protocols:              &only,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: connWindow,
			MaxReadFrameSize:              16 << 10,
			WriteByteTimeout:              limit, // a peer that doesn't read loses the connection
		},
	}
	conn, err := t.NewClientConn(ctx, "https", "h2:443") // the address is ours to choose: nothing is dialled
	if err != nil {
		return nil, err
	}
	return &http2{sock: s, conn: conn, buffers: b}, nil
}

func (h *http2) shared() bool  { return true }
func (h *http2) reserve() bool { return h.conn.Reserve() == nil }
func (h *http2) spent() bool   { return h.conn.Available() == 0 }
func (h *http2) close()        { _ = h.conn.Close() }

// exchange sends a request on a stream of its own and reads the answer.
func (h *http2) exchange(ctx context.Context, c *call) (o outcome) {
	req := newRequest(c)
	f := &flight{conn: h.conn, sock: h.sock, began: time.Now()}
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	f.cancel = cancel
	defer context.AfterFunc(ctx, f.abort)()
	late := time.AfterFunc(time.Until(c.deadline), func() { f.late.Store(true); f.abort() })
	defer late.Stop()

	resp, err := h.conn.RoundTrip(req.WithContext(httptrace.WithClientTrace(streamCtx, f.trace())))
	sent := err == nil || f.sent.Load() // an answer may overtake the news that the headers went out
	switch {
	case err == nil && !finalStatus(resp.StatusCode):
		_ = resp.Body.Close()
		err = errUnexpectedStatus
	case err != nil && f.interim.Load() > maxInterim:
		err = errTooManyInterim
	case err != nil && f.late.Load():
		err = context.DeadlineExceeded
	}
	if err != nil {
		o = failed(stepRead, err, sent)
		// A stream that failed by itself leaves its connection whole. After a time limit the connection is
		// given up: it may be a dead one, and would hold up every request that follows.
		o.reusable = sent && !f.late.Load() && errors.As(err, new(streamError))
		return o
	}
	o = outcome{answered: true, status: resp.StatusCode, header: keep(resp.Header), sent: true, reusable: true}
	if first := f.firstByte.Load(); first != nil {
		o.firstByte = first.Sub(f.began)
	}
	late.Reset(min(maxBodyTime, time.Until(c.deadline)))
	scratch := h.buffers.bodies.Get().(*[maxBody + 1]byte)
	defer h.buffers.bodies.Put(scratch)
	o.readBody(resp.Body, scratch)
	_ = resp.Body.Close() // resets the stream where it hasn't ended; the connection goes on
	return o
}

func newRequest(c *call) *http.Request {
	header := make(http.Header, len(c.header)+2)
	header["User-Agent"] = []string{defaultUserAgent}
	for name, values := range c.header {
		if !ReservedHeader(name) {
			header[name] = values
		}
	}
	header["Accept-Encoding"] = []string{"identity"}
	req := &http.Request{
		Method: http.MethodPost, URL: c.target.url, Host: c.target.authority(),
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: header,
		Body: http.NoBody, ContentLength: int64(len(c.body)),
	}
	if len(c.body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(c.body))
	}
	return req
}

// flight watches one request on an HTTP/2 connection.
//
// Whether it was sent must be known when RoundTrip returns. RoundTrip waits for the goroutine that writes,
// unless its context ended: then that goroutine may yet write the headers. So the context isn't cancelled
// before they were written. A request that must end earlier (a peer that doesn't read, or allows no streams)
// takes the connection with it, which ends the writing, one way or the other, before RoundTrip returns.
type flight struct {
	conn  *http.ClientConn
	sock  *socket
	began time.Time

	sent      atomic.Bool
	late      atomic.Bool
	firstByte atomic.Pointer[time.Time]
	interim   atomic.Int32 // answers of 1xx

	mu     sync.Mutex
	wrote  bool // the writing of the headers is over
	ended  bool
	cancel context.CancelFunc
}

func (f *flight) abort() {
	f.mu.Lock()
	f.ended = true
	wrote := f.wrote
	f.mu.Unlock()
	if wrote {
		f.cancel()
	} else {
		_ = f.conn.Close()
	}
}

func (f *flight) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteHeaders: func() {
			f.sent.Store(!f.sock.broken.Load()) // called whether or not they went out
			f.mu.Lock()
			f.wrote = true
			ended := f.ended
			f.mu.Unlock()
			if ended {
				f.cancel()
			}
		},
		GotFirstResponseByte: func() {
			now := time.Now()
			f.firstByte.CompareAndSwap(nil, &now)
		},
		Got1xxResponse: func(status int, _ textproto.MIMEHeader) error {
			if f.interim.Add(1) > maxInterim || !interimStatus(status) {
				return errTooManyInterim
			}
			return nil
		},
	}
}
