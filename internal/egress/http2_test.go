package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
)

// h2 is a receiver of HTTP/2 at r.test, and a client that trusts it.
func h2(t testing.TB, script egresstest.Script, change ...func(*egress.Config)) (*env, *egresstest.Receiver) {
	t.Helper()
	e, authority := secure(t, change...)
	return e, egresstest.NewTLSReceiver(t, script, egresstest.HTTP2Config(authority.Certificate("r.test")))
}

func respond(s *egresstest.Stream) bool { return s.Respond(200, "ok") }

func TestHTTP2(t *testing.T) {
	t.Parallel()
	e, rx := h2(t, egresstest.HTTP2(respond))
	for i, size := range []int{0, 10, 300 << 10} {
		req := request(rx.URLFor("r.test", "/hook?x=1"), egresstest.Patience)
		req.Header["Transfer-Encoding"], req.Header["Host"], req.Header["Connection"] = []string{"chunked"}, []string{"evil.test"}, []string{"close"}
		req.Body = bytes.Repeat([]byte("x"), size)
		r := e.client.Post(context.Background(), req)
		wantOK(t, r, 200)
		if string(r.Body) != "ok" || r.Truncated || r.Phases.Protocol != "h2" || r.Phases.Reused != (i > 0) || r.Phases.FirstByte == 0 {
			t.Errorf("body %q, truncated %v, phases %+v", r.Body, r.Truncated, r.Phases)
		}
		got := rx.WaitRequests(i + 1)[i]
		if got.Method != "POST" || got.Target != "/hook?x=1" || !strings.HasPrefix(got.Host, "r.test:") || !bytes.Equal(got.Body, req.Body) {
			t.Errorf("it arrived as %s %s for %s with %d bytes", got.Method, got.Target, got.Host, len(got.Body))
		}
		if h := got.Header; h.Get("User-Agent") != "Sallyport" || h.Get("Accept-Encoding") != "identity" || h.Get("Webhook-Id") != "evt_1" || h.Get("Transfer-Encoding") != "" {
			t.Errorf("headers are %v", h)
		}
	}
	if n := len(rx.Connections()); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestHTTP2WithGosOwnServer(t *testing.T) {
	t.Parallel()
	e, authority := secure(t)
	var mu sync.Mutex
	remotes := map[string]int{}
	config := &tls.Config{Certificates: []tls.Certificate{authority.Certificate("127.0.0.1")}}
	url := serve(t, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		remotes[r.RemoteAddr]++
		mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	}))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 10 {
				r := e.post(url)
				wantOK(t, r, 202)
				if r.Phases.Protocol != "h2" {
					t.Errorf("protocol %q", r.Phases.Protocol)
				}
			}
		})
	}
	all.Wait()
	total := 0
	for _, n := range remotes {
		total += n
	}
	if total != 200 || e.client.Idle() != 1 {
		t.Errorf("%d requests, want 200; %d connections are idle, want one that they share", total, e.client.Idle())
	}
}

// REFUSED_STREAM and GOAWAY say that a request wasn't processed, and net/http would resend it. It was on the
// wire, so it is an attempt.
func TestHTTP2NeverRepeatsARequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(s *egresstest.Stream) bool
		fault  egress.Fault
		reason egress.Reason
		reused bool // the next request finds the connection fit
	}{
		"refused stream":  {func(s *egresstest.Stream) bool { return s.Reset(http2.ErrCodeRefusedStream) }, egress.FaultConnect, egress.ReasonStreamRefused, true},
		"protocol error":  {func(s *egresstest.Stream) bool { return s.Reset(http2.ErrCodeProtocol) }, egress.FaultProtocol, egress.ReasonStreamError, false},
		"internal error":  {func(s *egresstest.Stream) bool { return s.Reset(http2.ErrCodeInternal) }, egress.FaultProtocol, egress.ReasonStreamError, true},
		"go away":         {func(s *egresstest.Stream) bool { return s.GoAway(s.ID - 2) }, egress.FaultConnect, egress.ReasonClosed, false},
		"go away and end": {func(s *egresstest.Stream) bool { s.GoAway(s.ID); return false }, egress.FaultConnect, egress.ReasonClosed, false},
		"close":           {func(*egresstest.Stream) bool { return false }, egress.FaultConnect, egress.ReasonClosed, false},
		"a violation":     {func(s *egresstest.Stream) bool { return s.Raw(http2.FrameSettings, 1, "") }, egress.FaultProtocol, egress.ReasonStreamError, false},
		"final 1xx":       {func(s *egresstest.Stream) bool { return s.Head(103, true) }, egress.FaultProtocol, egress.ReasonStreamError, true},
		"101":             {func(s *egresstest.Stream) bool { return s.Head(101, false) }, egress.FaultProtocol, egress.ReasonStreamError, true},
		"status 999":      {func(s *egresstest.Stream) bool { return s.Head(999, true) }, egress.FaultProtocol, egress.ReasonUnexpectedStatus, false},
		"many 1xx": {func(s *egresstest.Stream) bool {
			for range 17 {
				s.Head(103, false)
			}
			return s.Respond(200, "")
		}, egress.FaultProtocol, egress.ReasonTooManyInterim, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int32
			e, rx := h2(t, egresstest.HTTP2(func(s *egresstest.Stream) bool {
				if n.Add(1) == 3 {
					return c.end(s)
				}
				return respond(s)
			}))
			url := rx.URLFor("r.test", "/")
			wantOK(t, e.post(url), 200)
			wantOK(t, e.post(url), 200)
			want(t, e.post(url), 0, c.fault, c.reason, egress.SentYes)
			r := e.post(url)
			wantOK(t, r, 200)
			if r.Phases.Reused != c.reused {
				t.Errorf("the next request finds reused %v, want %v", r.Phases.Reused, c.reused)
			}
			if got := len(rx.Requests()); got != 4 {
				t.Errorf("%d requests for 4 attempts", got)
			}
		})
	}
}

func TestHTTP2GoAwayBetweenRequestsCostsNothing(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	e, rx := h2(t, egresstest.HTTP2(func(s *egresstest.Stream) bool {
		if n.Add(1)%10 == 0 { // before the answer, so that no request crosses it
			return s.GoAway(s.ID) && respond(s)
		}
		return respond(s)
	}))
	for range 40 {
		wantOK(t, e.post(rx.URLFor("r.test", "/")), 200)
	}
	if got := len(rx.Requests()); got != 40 {
		t.Errorf("%d requests, want 40", got)
	}
}

func TestHTTP2InterimAnswersAreSkipped(t *testing.T) {
	t.Parallel()
	e, rx := h2(t, egresstest.HTTP2(func(s *egresstest.Stream) bool {
		return s.Head(100, false) && s.Head(103, false) && s.Head(102, false) && respond(s)
	}))
	for range 10 {
		wantOK(t, e.post(rx.URLFor("r.test", "/")), 200)
	}
	if n := len(rx.Connections()); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestHTTP2BodyWithoutEnd(t *testing.T) {
	t.Parallel()
	t.Run("fast", func(t *testing.T) {
		t.Parallel()
		e, rx := h2(t, egresstest.HTTP2(func(s *egresstest.Stream) bool {
			ok := s.Head(200, false)
			for range 4 { // as much as the window takes
				ok = ok && s.Data(strings.Repeat("x", 16<<10-1))
			}
			return ok
		}))
		for i := range 3 {
			r := e.post(rx.URLFor("r.test", "/"))
			wantOK(t, r, 200)
			if len(r.Body) != 1<<10 || !r.Truncated || r.Phases.Reused != (i > 0) {
				t.Errorf("kept %d bytes, truncated %v, reused %v", len(r.Body), r.Truncated, r.Phases.Reused)
			}
		}
	})
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		e, rx := h2(t, egresstest.HTTP2(func(s *egresstest.Stream) bool { return s.Head(200, false) && s.Data("x") }))
		r := e.post(rx.URLFor("r.test", "/"))
		wantOK(t, r, 200)
		if string(r.Body) != "x" || !r.Truncated || r.Phases.Total < 2*time.Second || r.Phases.Total > 10*time.Second {
			t.Errorf("kept %q, truncated %v, in %v", r.Body, r.Truncated, r.Phases.Total)
		}
	})
}

func TestHTTP2Limits(t *testing.T) {
	t.Parallel()
	silent := func(*egresstest.Stream) bool { return true }
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		e, rx := h2(t, egresstest.HTTP2(silent))
		want(t, e.postIn(rx.URLFor("r.test", "/"), 300*time.Millisecond), 0, egress.FaultTimeout, egress.ReasonResponseTimeout, egress.SentYes)
		rx.WaitClosed(0) // it may be a dead connection
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(context.Background())
		e, rx := h2(t, egresstest.HTTP2(func(*egresstest.Stream) bool { cancel(); return true }))
		want(t, e.client.Post(ctx, request(rx.URLFor("r.test", "/"), 0)), 0, egress.FaultInterrupted, egress.ReasonCancelled, egress.SentYes)
	})
	t.Run("a peer that never reads", func(t *testing.T) {
		t.Parallel()
		e, rx := h2(t, func(c *egresstest.Conn) { c.Protocol(); c.Idle() })
		req := request(rx.URLFor("r.test", "/"), 300*time.Millisecond)
		req.Body = make([]byte, 16<<20)
		r := e.client.Post(context.Background(), req)
		want(t, r, 0, egress.FaultTimeout, egress.ReasonResponseTimeout, egress.SentYes)
	})
	t.Run("headers too large", func(t *testing.T) {
		t.Parallel()
		e, authority := secure(t)
		config := &tls.Config{Certificates: []tls.Certificate{authority.Certificate("127.0.0.1")}}
		url := serve(t, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-A", strings.Repeat("a", 100<<10))
		}))
		want(t, e.post(url), 0, egress.FaultProtocol, egress.ReasonStreamError, egress.SentYes)
	})
	t.Run("one connection is enough", func(t *testing.T) {
		t.Parallel()
		const n = 8
		var mu sync.Mutex
		var waiting []*egresstest.Stream
		e, rx := h2(t, egresstest.HTTP2(func(s *egresstest.Stream) bool {
			mu.Lock()
			defer mu.Unlock()
			if waiting = append(waiting, s); len(waiting) == n {
				for _, s := range waiting {
					respond(s)
				}
			}
			return true
		}))
		var all sync.WaitGroup
		for range n {
			all.Go(func() { wantOK(t, e.post(rx.URLFor("r.test", "/")), 200) })
		}
		all.Wait()
		if e.client.Idle() != 1 {
			t.Errorf("%d connections are idle, want 1", e.client.Idle())
		}
	})
}

// A receiver that stops reading holds up the writing itself. What could not be written was not sent, and that
// is known: nothing hangs past its time, and nothing is written after its Post has returned.
func TestHTTP2RequestsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	e, rx := h2(t, egresstest.HTTP2(func(s *egresstest.Stream) bool {
		if s.ID > 1 {
			<-release
		}
		return respond(s)
	}))
	url := rx.URLFor("r.test", "/")
	wantOK(t, e.post(url), 200)
	req := request(url, 500*time.Millisecond)
	for i := range 20 {
		req.Header["X-Large-"+string(rune('A'+i))] = []string{strings.Repeat(string(rune('a'+i)), 4096)}
	}
	const n = 90
	var sent, unsent atomic.Int32
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			r := e.client.Post(context.Background(), req)
			switch {
			case r.Sent == egress.SentYes:
				sent.Add(1)
			default:
				unsent.Add(1)
			}
			if r.Phases.Total > 5*time.Second { // (one that was not sent may have gone on with a connection of its own)
				t.Errorf("status %d, %q after %v", r.Status, r.Reason, r.Phases.Total)
			}
		})
	}
	all.Wait()
	close(release)
	rx.WaitClosed(0)
	if got := int32(len(rx.Requests())) - 1; got > sent.Load() {
		t.Errorf("%d requests arrived, %d were sent, %d were not", got, sent.Load(), unsent.Load())
	}
	if unsent.Load() == 0 {
		t.Log("the sockets took everything")
	}
}

// A receiver that allows no more streams is not waited for.
func TestHTTP2ConnectionWithoutRoom(t *testing.T) {
	t.Parallel()
	full := func(s *egresstest.Stream) bool {
		return s.Raw(http2.FrameSettings, 0, "\x00\x03\x00\x00\x00\x00") && respond(s) // MAX_CONCURRENT_STREAMS 0
	}
	e, rx := h2(t, egresstest.HTTP2(full))
	for range 3 {
		r := e.post(rx.URLFor("r.test", "/"))
		wantOK(t, r, 200)
		if r.Phases.Reused {
			t.Error("the connection had no room")
		}
	}
}
