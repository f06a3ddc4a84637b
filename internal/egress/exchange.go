package egress

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Limits on an answer.
const (
	maxHead     = 64 << 10        // bytes of header, interim answers included
	maxLines    = 512             // lines of header: a map entry costs many times the bytes of a short line
	maxInterim  = 16              // interim (1xx) answers
	maxBody     = 16 << 10        // bytes of body that are read and, where the status is no 2xx, kept
	maxBodyOK   = 1 << 10         // bytes kept of a 2xx
	maxBodyTime = 2 * time.Second // for the body
)

// call is one request on its way.
type call struct {
	target   target
	header   http.Header
	body     []byte
	deadline time.Time
}

// outcome is what came of it.
type outcome struct {
	answered  bool // status and header are there, whatever err says about the rest
	status    int
	header    http.Header
	body      []byte
	truncated bool
	firstByte time.Duration // from the start of writing to the first byte that came back
	sent      bool
	reusable  bool
	err       error // a *stepError where there is no answer
}

func failed(at step, err error, sent bool) outcome {
	return outcome{sent: sent, err: &stepError{at, err}}
}

// finalStatus tells whether a status ends an exchange. 101 would hand the connection over to a protocol that
// nobody asked for.
func finalStatus(status int) bool { return status >= 200 && status <= 599 }

func interimStatus(status int) bool {
	return status >= 100 && status <= 199 && status != http.StatusSwitchingProtocols
}

// readBody reads at most maxBody bytes of a body and keeps as many as its status deserves. complete tells
// that the body ended; truncated, that there is, or may be, more than was kept. How a body ends says nothing
// about the answer: the status has been given.
func (o *outcome) readBody(r io.Reader, scratch *[maxBody + 1]byte) (complete bool) {
	n := 0
	for n < len(scratch) {
		m, err := r.Read(scratch[n:])
		n += m
		if err != nil {
			complete = errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
			break
		}
	}
	kept := min(n, maxBody)
	if o.status <= 299 {
		kept = min(n, maxBodyOK)
	}
	o.truncated = kept < n || !complete
	if kept > 0 {
		o.body = append([]byte(nil), scratch[:kept]...)
	}
	return complete
}
