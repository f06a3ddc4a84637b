package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// inlineWrite is the largest request that is written before its answer is read. An empty socket takes it
// without waiting for the receiver to read (the kernel's smallest send buffer is 16 KiB), so a receiver that
// answers without reading can't block it. A larger one is written beside the reading.
const inlineWrite = 8 << 10

// past is a deadline that has gone by.
var past = time.Unix(1, 0)

// defaultUserAgent is sent where the caller has none.
const defaultUserAgent = "Sallyport"

// http1 carries requests over an HTTP/1.1 connection, one at a time, on its caller's goroutine.
type http1 struct {
	sock    *socket
	top     net.Conn // the socket, or TLS upon it
	buffers *buffers
}

// buffers are shared by all connections of a client, so that an idle one holds none.
type buffers struct{ works, bodies sync.Pool }

func newBuffers() *buffers {
	return &buffers{
		works: sync.Pool{New: func() any {
			w := &work{in: bufio.NewReader(nil)}
			w.parse = bufio.NewReaderSize(w, 1<<10)
			return w
		}},
		bodies: sync.Pool{New: func() any { return new([maxBody + 1]byte) }},
	}
}

// work is what one exchange needs. It is also the reader that gives a parser the head that was read, and then
// what follows it.
type work struct {
	in    *bufio.Reader // from the connection
	parse *bufio.Reader // from work itself
	head  []byte        // the head of the answer
	given int           // bytes of head that the parser was given
	out   []byte        // the request
	names []string      // of its headers
}

func (w *work) Read(p []byte) (int, error) {
	if w.given < len(w.head) {
		n := copy(p, w.head[w.given:])
		w.given += n
		return n, nil
	}
	return w.in.Read(p)
}

// drained tells that nothing follows the answer.
func (w *work) drained() bool {
	return w.given == len(w.head) && w.parse.Buffered() == 0 && w.in.Buffered() == 0
}

func (b *buffers) put(w *work) {
	w.in.Reset(nil)
	w.parse.Reset(w)
	w.head, w.out, w.given = w.head[:0], w.out[:0], 0
	clear(w.names)
	w.names = w.names[:0]
	if cap(w.out) > maxHead { // many large headers: rare
		w.out = nil
	}
	b.works.Put(w)
}

func (h *http1) shared() bool { return false }
func (h *http1) spent() bool  { return false }
func (h *http1) close()       { _ = h.sock.Close() } // no close_notify: it could block on a peer that doesn't read

// reserve is asked of an idle connection only.
func (h *http1) reserve() bool {
	_ = h.sock.SetDeadline(time.Time{})
	return h.sock.alive(h.top)
}

// exchange sends a request and reads its answer. sent is exact: the bytes that the kernel took while the
// request was written, counted below TLS, which writes nothing else meanwhile.
func (h *http1) exchange(ctx context.Context, c *call) (o outcome) {
	w := h.buffers.works.Get().(*work)
	defer h.buffers.put(w)
	w.compose(c)
	_ = h.sock.SetDeadline(c.deadline)
	stop := context.AfterFunc(ctx, func() { _ = h.sock.SetDeadline(past) })

	w.in.Reset(h.top)
	began, before := time.Now(), h.sock.written.Load()
	pending, err := h.write(w, c)
	if err != nil && (h.sock.written.Load() == before || isTimeout(err)) {
		stop()
		return failed(stepWrite, err, h.sock.written.Load() != before)
	}
	// A write that failed half-way may have an answer all the same: a receiver may answer and close before it
	// has read everything.
	resp, firstByte, readErr := w.readAnswer()
	if pending != nil {
		err = h.finish(pending)
	}
	sent := h.sock.written.Load() != before
	if readErr == nil && !sent {
		readErr = errNoAnswer // something came, but not to a request that never left
	}
	if readErr != nil {
		stop()
		if err != nil && (isTimeout(readErr) || errors.Is(readErr, errNoAnswer)) {
			return failed(stepWrite, err, sent)
		}
		return failed(stepRead, readErr, sent)
	}
	o = outcome{answered: true, status: resp.StatusCode, header: keep(resp.Header), firstByte: firstByte.Sub(began), sent: true}
	complete := h.readBody(ctx, &o, resp, c.deadline)
	undisturbed := stop()
	o.reusable = complete && undisturbed && err == nil && !resp.Close && w.drained()
	return o
}

// write starts to send the request. A small one is on its way when write returns; for a large one pending
// will tell.
func (h *http1) write(w *work, c *call) (pending chan error, err error) {
	if len(w.out)+len(c.body) <= inlineWrite {
		w.out = append(w.out, c.body...)
		_, err = h.top.Write(w.out)
		return nil, err
	}
	pending = make(chan error, 1)
	go func() {
		_, err := h.top.Write(w.out)
		if err == nil {
			_, err = h.top.Write(c.body)
		}
		pending <- err
	}()
	return pending, nil
}

// finish waits for a write whose answer is there, or won't come. A receiver that doesn't read on isn't waited
// for.
func (h *http1) finish(pending chan error) error {
	select {
	case err := <-pending:
		return err
	default:
		_ = h.sock.SetWriteDeadline(past)
		return <-pending
	}
}

// readAnswer reads up to the end of the final answer's header. The body is left to be read.
func (w *work) readAnswer() (resp *http.Response, firstByte time.Time, err error) {
	if _, err := w.in.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = errNoAnswer
		}
		return nil, firstByte, err
	}
	firstByte = time.Now()
	left := head{bytes: maxHead, lines: maxLines}
	for range maxInterim + 1 {
		if err := w.readHead(&left); err != nil {
			return nil, firstByte, err
		}
		w.parse.Reset(w)
		resp, err := http.ReadResponse(w.parse, nil)
		switch {
		case err != nil || resp.ProtoMajor != 1: // the whole head was there, so it is to blame, not the connection
			return nil, firstByte, errMalformed
		case interimStatus(resp.StatusCode):
			continue
		case !finalStatus(resp.StatusCode):
			return nil, firstByte, errUnexpectedStatus
		}
		return resp, firstByte, nil
	}
	return nil, firstByte, errTooManyInterim
}

// head is how much of an answer's header may still come.
type head struct{ bytes, lines int }

// readHead reads a head, up to and with its empty line, into w.head. So the parser never sees a head that is
// too large, nor one that the connection cut.
func (w *work) readHead(left *head) error {
	w.head, w.given = w.head[:0], 0
	lineStart := 0
	for {
		part, err := w.in.ReadSlice('\n')
		w.head = append(w.head, part...)
		if left.bytes -= len(part); left.bytes < 0 {
			return errHeadersTooLarge
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return errCut
		case err != nil:
			return err
		}
		line := w.head[lineStart:]
		if len(line) == 1 || len(line) == 2 && line[0] == '\r' {
			return nil
		}
		if left.lines--; left.lines < 0 {
			return errHeadersTooLarge
		}
		lineStart = len(w.head)
	}
}

// readBody reads the body as far as it is wanted, and tells whether it ended.
func (h *http1) readBody(ctx context.Context, o *outcome, resp *http.Response, deadline time.Time) (complete bool) {
	if resp.Body == http.NoBody || resp.ContentLength == 0 {
		return true
	}
	if limit := time.Now().Add(maxBodyTime); limit.Before(deadline) {
		_ = h.sock.SetReadDeadline(limit)
		if ctx.Err() != nil { // the deadline just set may have undone what the end of ctx set
			_ = h.sock.SetReadDeadline(past)
		}
	}
	scratch := h.buffers.bodies.Get().(*[maxBody + 1]byte)
	defer h.buffers.bodies.Put(scratch)
	return o.readBody(resp.Body, scratch) // never closed: that would read the rest of it
}

// compose writes the request's head into w.out: only here is it decided where a request ends.
func (w *work) compose(c *call) {
	b := append(w.out[:0], "POST "...)
	b = append(b, c.target.url.RequestURI()...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.target.authority()...)
	b = append(b, "\r\n"...)
	for name := range c.header {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	for _, name := range w.names {
		if ReservedHeader(name) {
			continue
		}
		for _, value := range c.header[name] {
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
			b = append(b, "\r\n"...)
		}
	}
	if _, ok := c.header["User-Agent"]; !ok {
		b = append(b, "User-Agent: "+defaultUserAgent+"\r\n"...)
	}
	b = append(b, "Accept-Encoding: identity\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(c.body)), 10)
	w.out = append(b, "\r\n\r\n"...)
}
