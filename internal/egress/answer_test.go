package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
)

// FuzzAnswer compares the reading of an answer with net/http's: what it takes, we take alike, but for the
// limits; what it refuses, we refuse.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		egresstest.OK,
		egresstest.OK + egresstest.OK,
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.0 200\n\nbody",
		"HTTP/1.1 100 Continue\r\n\r\n" + egresstest.OK,
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 429 x\r\nRetry-After: 7\r\n folded\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"HTTP/1.1 999 x\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\r\n\r\n",
		"HTTP/1.1 200 OK\r\n \r\n\r\n",
		"HTTP/1.1 200 OK\r\n\t\n\n",
		"\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 5000) + "\r\n\r\nbody",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 32<<10 || bytes.Count(raw, []byte("\n")) > 256 {
			return // the limits have tests of their own
		}
		status, header, body, err := egress.ReadAnswer(bytes.NewReader(raw))
		model, modelBody := modelAnswer(raw)
		if (err == nil) != (model != nil) {
			t.Fatalf("%q: we say %d, %v; net/http says %v", raw, status, err, model)
		}
		if model == nil {
			return
		}
		if status != model.StatusCode || !sameHeader(header, model.Header) || !bytes.Equal(body, modelBody) {
			t.Fatalf("%q: we read %d, %v, %q; net/http reads %d, %v, %q", raw, status, header, body, model.StatusCode, model.Header, modelBody)
		}
	})
}

// modelAnswer is the answer as net/http reads it, nil where it is none, and as much of its body as we keep.
func modelAnswer(raw []byte) (*http.Response, []byte) {
	in := bufio.NewReader(bytes.NewReader(raw))
	for range 17 {
		resp, err := http.ReadResponse(in, nil)
		switch {
		case err != nil || resp.ProtoMajor != 1:
			return nil, nil
		case resp.StatusCode >= 100 && resp.StatusCode < 200 && resp.StatusCode != 101:
			continue
		case resp.StatusCode < 200 || resp.StatusCode > 599:
			return nil, nil
		}
		limit := int64(16 << 10)
		if resp.StatusCode < 300 {
			limit = 1 << 10
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, limit))
		return resp, body
	}
	return nil, nil
}

func sameHeader(a, b http.Header) bool {
	var x, y strings.Builder
	_ = a.Write(&x)
	_ = b.Write(&y)
	return x.String() == y.String()
}

func BenchmarkPost(b *testing.B) {
	e := setup(b)
	rx := egresstest.NewReceiver(b, func(c *egresstest.Conn) {
		// Reads by hand and logs nothing: the receiver is not what is measured.
		stream, buf := c.Raw(), make([]byte, 64<<10)
		for n := 0; ; {
			m, err := stream.Read(buf[n:])
			if err != nil {
				return
			}
			if n += m; bytes.Contains(buf[:n], []byte(`{"id":"evt_1"}`)) {
				n = 0
				if _, err := stream.Write([]byte(egresstest.OK)); err != nil {
					return
				}
			}
		}
	})
	req := request(rx.URL("/hook"), 0)
	b.ReportAllocs()
	for b.Loop() {
		if r := e.client.Post(context.Background(), req); r.Status != 200 {
			b.Fatal(r.Reason)
		}
	}
}
