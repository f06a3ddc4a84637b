package egress_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
)

func TestEveryStatusOf2xxIsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 204, 206, 299} {
		e := setup(t)
		rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.Response(status, "")))
		wantOK(t, e.post(rx.URL("/")), status)
		if n := len(rx.Requests()); n != 1 {
			t.Errorf("status %d: %d requests, want 1", status, n)
		}
	}
}

func TestOtherStatusesAreAnswersToo(t *testing.T) {
	t.Parallel()
	for _, status := range []int{300, 304, 400, 404, 410, 429, 500, 503, 599} {
		e := setup(t)
		rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.Response(status, "", "Retry-After: 7")))
		r := e.post(rx.URL("/"))
		wantOK(t, r, status)
		if r.Header.Get("Retry-After") != "7" {
			t.Errorf("status %d: headers are %v", status, r.Header)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"http://169.254.169.254/", "/final"} {
			e := setup(t)
			rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.Response(status, "", "Location: "+location)))
			wantOK(t, e.post(rx.URL("/first")), status)
			if got := rx.Requests(); len(got) != 1 || got[0].Target != "/first" {
				t.Errorf("status %d to %s: %d requests", status, location, len(got))
			}
		}
	}
}

// The bytes on the wire: what frames a request is the client's, whatever the caller's headers say.
func TestTheBytesOfARequest(t *testing.T) {
	t.Parallel()
	e := setup(t)
	rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.OK))
	wantOK(t, e.client.Post(context.Background(), egress.Request{
		URL: rx.URL("/hook?x=%20"),
		Header: http.Header{
			"Content-Type": {"application/json"}, "Webhook-Id": {"evt_1"}, "X-Two": {"a", "b"}, "Authorization": {"Bearer zzz"},
			"Host": {"evil.test"}, "Content-Length": {"3"}, "Transfer-Encoding": {"chunked"}, "Connection": {"close"}, "Keep-Alive": {"1"},
			"Te": {"trailers"}, "Trailer": {"x"}, "Upgrade": {"h2c"}, "Http2-Settings": {"x"}, "Expect": {"100-continue"},
			"Proxy-Connection": {"x"}, "Proxy-Authorization": {"x"}, "Proxy-Authenticate": {"x"}, "Accept-Encoding": {"gzip"},
			"transfer-encoding": {"chunked"}, "CONTENT-LENGTH": {"5\r\nX: y"},
		},
		Body: []byte(`{"a":1}`),
	}), 200)
	want := "POST /hook?x=%20 HTTP/1.1\r\n" +
		"Host: " + rx.Addr().String() + "\r\n" +
		"Authorization: Bearer zzz\r\nContent-Type: application/json\r\nWebhook-Id: evt_1\r\nX-Two: a\r\nX-Two: b\r\n" +
		"User-Agent: Sallyport\r\nAccept-Encoding: identity\r\nContent-Length: 7\r\n\r\n" + `{"a":1}`
	if got := string(rx.WaitRequests(1)[0].Raw); got != want {
		t.Errorf("the request is\n%q, want\n%q", got, want)
	}
}

func TestAHeaderThatCannotBeSentIsOurError(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{
		"CRLF in a value": {"X-A": {"a\r\nX-Evil: 1"}},
		"LF in a value":   {"X-A": {"a\nb"}},
		"NUL in a value":  {"X-A": {"a\x00b"}},
		"CRLF in a name":  {"X-A\r\nX-Evil": {"1"}},
		"space in a name": {"X A": {"1"}},
		"colon in a name": {"X:A": {"1"}},
		"no name":         {"": {"1"}},
		"a pseudo header": {":path": {"/"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			rx := egresstest.NewReceiver(t, egresstest.Canary(t))
			r := e.client.Post(context.Background(), egress.Request{URL: rx.URL("/"), Header: header})
			want(t, r, 0, egress.FaultInternal, egress.ReasonInvalidRequest, egress.SentNo)
		})
	}
}

func TestALargeBodyArrivesWhole(t *testing.T) {
	t.Parallel()
	e := setup(t)
	rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.OK))
	for i, size := range []int{0, 1, 8 << 10, 300 << 10} {
		body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		r := e.client.Post(context.Background(), egress.Request{URL: rx.URL("/"), Body: body})
		wantOK(t, r, 200)
		if got := rx.WaitRequests(i + 1)[i].Body; !bytes.Equal(got, body) {
			t.Errorf("%d bytes arrived, want %d", len(got), size)
		}
		if r.Phases.Reused != (i > 0) {
			t.Errorf("body of %d: reused is %v", size, r.Phases.Reused)
		}
	}
}

func TestAnAnswerBeforeTheRequestWasReadCounts(t *testing.T) {
	t.Parallel()
	body := make([]byte, 8<<20) // more than any socket holds
	for name, script := range map[string]egresstest.Script{
		"and the receiver closes": func(c *egresstest.Conn) {
			if _, err := c.ReadHead(); err == nil {
				c.Write(egresstest.Response(413, "too much"))
			}
		},
		"and the receiver reads no further": func(c *egresstest.Conn) {
			if _, err := c.ReadHead(); err == nil {
				c.Write(egresstest.Response(413, "too much"))
				c.Idle()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			rx := egresstest.NewReceiver(t, script)
			r := e.client.Post(context.Background(), egress.Request{URL: rx.URL("/"), Body: body, Timeout: egresstest.Patience})
			wantOK(t, r, 413)
			if e.client.Idle() != 0 {
				t.Error("a connection with half a request on it waits for re-use")
			}
		})
	}
}

func TestAReceiverThatReadsNothingTimesOut(t *testing.T) {
	t.Parallel()
	e := setup(t)
	rx := egresstest.NewReceiver(t, (*egresstest.Conn).Idle)
	r := e.client.Post(context.Background(), egress.Request{URL: rx.URL("/"), Body: make([]byte, 16<<20), Timeout: 300 * time.Millisecond})
	want(t, r, 0, egress.FaultTimeout, egress.ReasonRequestTimeout, egress.SentYes)
}

func TestInterimAnswersAreSkipped(t *testing.T) {
	t.Parallel()
	e := setup(t)
	interim := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\n"
	rx := egresstest.NewReceiver(t, egresstest.Always(interim+egresstest.OK))
	for range 10 {
		wantOK(t, e.post(rx.URL("/")), 200)
	}
	if conns, requests := len(rx.Connections()), len(rx.Requests()); conns != 1 || requests != 10 {
		t.Errorf("%d requests over %d connections, want 10 over 1", requests, conns)
	}
}

func TestInterimAnswersAreBounded(t *testing.T) {
	t.Parallel()
	hint := "HTTP/1.1 103 Early Hints\r\n\r\n"
	e := setup(t)
	few := egresstest.NewReceiver(t, egresstest.Always(strings.Repeat(hint, 16)+egresstest.OK))
	wantOK(t, e.post(few.URL("/")), 200)
	many := egresstest.NewReceiver(t, egresstest.Once(strings.Repeat(hint, 17)+egresstest.OK))
	want(t, e.post(many.URL("/")), 0, egress.FaultProtocol, egress.ReasonTooManyInterim, egress.SentYes)
	endless := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
		for c.Write(hint) {
		}
		return false
	}))
	want(t, e.post(endless.URL("/")), 0, egress.FaultProtocol, egress.ReasonTooManyInterim, egress.SentYes)
}

func TestOddButWholeAnswersAreTaken(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"no headers":                "HTTP/1.1 200 OK\r\n\r\n",
		"no reason phrase":          "HTTP/1.1 200\r\n\r\n",
		"HTTP/1.0":                  "HTTP/1.0 200 OK\r\n\r\nhello",
		"HTTP/1.0 with a length":    "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"bare line feeds":           "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"a body cut short":          "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok",
		"a broken chunk":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok",
		"a folded header":           "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
		"a length and chunks":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"204 with a length":         "HTTP/1.1 204 No Content\r\nContent-Length: 10\r\n\r\n",
		"chunks and trailers":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
		"headers of many bytes":     "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 60<<10) + "\r\n\r\n",
		"headers of many lines":     "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: b\r\n", 500) + "\r\n",
		"a header with odd bytes":   "HTTP/1.1 200 OK\r\nServer: a\xff\xc0b\r\n\r\n",
		"more after what was asked": egresstest.OK + egresstest.OK,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			rx := egresstest.NewReceiver(t, egresstest.Once(raw))
			r := e.post(rx.URL("/"))
			if strings.Contains(raw, " 204 ") {
				wantOK(t, r, 204)
			} else {
				wantOK(t, r, 200)
			}
			if got := r.Header.Get("Server"); !utf8.ValidString(got) {
				t.Errorf("Server is kept as %q", got)
			}
		})
	}
}

func TestWhatIsNoAnswerIsAFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw    string
		fault  egress.Fault
		reason egress.Reason
	}{
		"nothing":                 {"", egress.FaultConnect, egress.ReasonClosed},
		"garbage":                 {"\x00\x01\x02 garbage\r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"another protocol":        {"SSH-2.0-OpenSSH_9.6\r\n", egress.FaultProtocol, egress.ReasonCut},
		"ICY":                     {"ICY 200 OK\r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"HTTP/2 in clear":         {"HTTP/2.0 200 OK\r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"an empty line":           {"\r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"no status":               {"HTTP/1.1 \r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"a status of two digits":  {"HTTP/1.1 20 OK\r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"a negative status":       {"HTTP/1.1 -20 OK\r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"status 000":              {"HTTP/1.1 000 OK\r\n\r\n", egress.FaultProtocol, egress.ReasonUnexpectedStatus},
		"status 99":               {"HTTP/1.1 099 OK\r\n\r\n", egress.FaultProtocol, egress.ReasonUnexpectedStatus},
		"status 600":              {"HTTP/1.1 600 OK\r\n\r\n", egress.FaultProtocol, egress.ReasonUnexpectedStatus},
		"status 999":              {"HTTP/1.1 999 OK\r\n\r\n", egress.FaultProtocol, egress.ReasonUnexpectedStatus},
		"101":                     {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", egress.FaultProtocol, egress.ReasonUnexpectedStatus},
		"a final 1xx":             {"HTTP/1.1 150 Hm\r\n\r\n", egress.FaultProtocol, egress.ReasonCut},
		"cut in the status":       {"HTTP/1.1 2", egress.FaultProtocol, egress.ReasonCut},
		"cut in the headers":      {"HTTP/1.1 200 OK\r\nContent-Le", egress.FaultProtocol, egress.ReasonCut},
		"cut before their end":    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", egress.FaultProtocol, egress.ReasonCut},
		"a header without colon":  {"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"a NUL in a header":       {"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\n\r\n", egress.FaultProtocol, egress.ReasonMalformed},
		"two lengths":             {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", egress.FaultProtocol, egress.ReasonMalformed},
		"a length that is none":   {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok", egress.FaultProtocol, egress.ReasonMalformed},
		"an unknown encoding":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", egress.FaultProtocol, egress.ReasonMalformed},
		"headers past 64 KiB":     {"HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", egress.FaultProtocol, egress.ReasonHeadersTooLarge},
		"one endless line":        {strings.Repeat("a", 128<<10), egress.FaultProtocol, egress.ReasonHeadersTooLarge},
		"headers past 512 lines":  {"HTTP/1.1 200 OK\r\n" + strings.Repeat("a:\r\n", 520) + "\r\n", egress.FaultProtocol, egress.ReasonHeadersTooLarge},
		"1xx headers past 64 KiB": {strings.Repeat("HTTP/1.1 103 x\r\nX-A: "+strings.Repeat("a", 10<<10)+"\r\n\r\n", 7) + egresstest.OK, egress.FaultProtocol, egress.ReasonHeadersTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			rx := egresstest.NewReceiver(t, egresstest.Once(c.raw))
			want(t, e.post(rx.URL("/")), 0, c.fault, c.reason, egress.SentYes)
			if n := len(rx.Requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			if e.client.Idle() != 0 {
				t.Error("the connection waits for re-use")
			}
		})
	}
}

func TestABodyWithoutEndDoesNotHoldTheDelivery(t *testing.T) {
	t.Parallel()
	written := make(chan int, 1)
	flood := func(c *egresstest.Conn, _ *egresstest.Request) bool {
		block, n := strings.Repeat("x", 64<<10), 0
		for c.Write(block) { // 10 GB, or until the client has had enough
			if n += len(block); n > 10<<30 {
				break
			}
		}
		written <- n
		return false
	}
	for _, status := range []int{200, 500} {
		t.Run(fmt.Sprint("fast, status ", status), func(t *testing.T) {
			e := setup(t)
			head := fmt.Sprintf("HTTP/1.1 %d x\r\n\r\n", status)
			rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, req *egresstest.Request) bool {
				return c.Write(head) && flood(c, req)
			}))
			r := e.post(rx.URL("/"))
			wantOK(t, r, status)
			kept := map[int]int{200: 1 << 10, 500: 16 << 10}[status]
			if len(r.Body) != kept || !r.Truncated {
				t.Errorf("kept %d bytes, truncated %v; want %d, true", len(r.Body), r.Truncated, kept)
			}
			if n := <-written; n > 64<<20 {
				t.Errorf("the receiver got rid of %d MiB", n>>20)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
			return c.Write("HTTP/1.1 200 OK\r\n\r\n") && c.Drip(strings.Repeat("x", 1<<20), 20*time.Millisecond)
		}))
		r := e.post(rx.URL("/"))
		wantOK(t, r, 200)
		if len(r.Body) == 0 || !r.Truncated || r.Phases.Total < 2*time.Second || r.Phases.Total > 10*time.Second {
			t.Errorf("kept %d bytes, truncated %v, in %v; want some, true, after 2 s", len(r.Body), r.Truncated, r.Phases.Total)
		}
		rx.WaitClosed(0)
	})
	t.Run("slow, and the time runs out", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
			return c.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx") && c.Pause(egresstest.Patience)
		}))
		r := e.postIn(rx.URL("/"), 300*time.Millisecond)
		wantOK(t, r, 200)
		if string(r.Body) != "x" || !r.Truncated || r.Phases.Total > 1900*time.Millisecond {
			t.Errorf("kept %q, truncated %v, in %v", r.Body, r.Truncated, r.Phases.Total)
		}
	})
}

func TestWhatIsKeptOfABody(t *testing.T) {
	t.Parallel()
	zip := "\x1f\x8b\x08\x00 raw \x00\xff bytes"
	for name, c := range map[string]struct {
		status    int
		body      string
		kept      int
		truncated bool
	}{
		"raw bytes":              {200, zip, len(zip), false},
		"none":                   {200, "", 0, false},
		"1 KiB of a 2xx":         {200, strings.Repeat("a", 1<<10), 1 << 10, false},
		"no more of a 2xx":       {200, strings.Repeat("a", 1<<10+1), 1 << 10, true},
		"16 KiB of the others":   {500, strings.Repeat("a", 16<<10), 16 << 10, false},
		"no more of the others":  {500, strings.Repeat("a", 16<<10+1), 16 << 10, true},
		"far too much of a 2xx":  {200, strings.Repeat("a", 1<<20), 1 << 10, true},
		"far too much otherwise": {500, strings.Repeat("a", 1<<20), 16 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.Response(c.status, c.body, "Content-Encoding: gzip", "Content-Type: text/html", "Set-Cookie: s=1")))
			r := e.post(rx.URL("/"))
			wantOK(t, r, c.status)
			if string(r.Body) != c.body[:c.kept] || r.Truncated != c.truncated {
				t.Errorf("kept %d bytes, truncated %v; want %d, %v", len(r.Body), r.Truncated, c.kept, c.truncated)
			}
			if reusable := len(c.body) <= 16<<10+1; (e.client.Idle() == 1) != reusable {
				t.Errorf("%d connections wait for re-use", e.client.Idle())
			}
			if len(r.Header) != 3 || r.Header.Get("Set-Cookie") != "" || r.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("headers are %v", r.Header)
			}
		})
	}
}

func TestASlowHeaderTimesOut(t *testing.T) {
	t.Parallel()
	e := setup(t)
	rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
		return c.Drip(egresstest.OK, 200*time.Millisecond)
	}))
	r := e.postIn(rx.URL("/"), 500*time.Millisecond)
	want(t, r, 0, egress.FaultTimeout, egress.ReasonResponseTimeout, egress.SentYes)
	if r.Phases.Total < 500*time.Millisecond || r.Phases.Total > 1500*time.Millisecond {
		t.Errorf("it took %v, want 500 ms", r.Phases.Total)
	}
	rx.WaitClosed(0)
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	t.Run("reset once the request was read", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool { c.Reset(); return false }))
		want(t, e.post(rx.URL("/")), 0, egress.FaultConnect, egress.ReasonReset, egress.SentYes)
	})
	t.Run("reset within the header", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
			c.Write("HTTP/1.1 2")
			c.Reset()
			return false
		}))
		r := e.post(rx.URL("/"))
		if r.Fault != egress.FaultConnect && r.Fault != egress.FaultProtocol || r.Sent != egress.SentYes {
			t.Errorf("got %q, sent %s", r.Fault, r.Sent)
		}
	})
	t.Run("closed once the request was read", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		rx := egresstest.NewReceiver(t, egresstest.Once(""))
		want(t, e.post(rx.URL("/")), 0, egress.FaultConnect, egress.ReasonClosed, egress.SentYes)
		if n := len(rx.Requests()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		r := e.post("http://" + egresstest.ClosedPort(t).String() + "/")
		want(t, r, 0, egress.FaultConnect, egress.ReasonConnectRefused, egress.SentNo)
	})
}
