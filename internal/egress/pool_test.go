package egress_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
)

// A receiver that closes its connections while they are idle costs no attempt: nothing was sent on the dead
// one, so the request goes out on a new one, once.
func TestAConnectionThatWasClosedWhileIdleCostsNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *egresstest.Conn){
		"closed": (*egresstest.Conn).Close,
		"reset":  (*egresstest.Conn).Reset,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			answered := make(chan struct{})
			rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
				c.Write(egresstest.OK)
				<-answered // read by the client: a reset would take what was not
				end(c)
				return false
			}))
			for i := range 5 {
				r := e.post(rx.URL("/"))
				wantOK(t, r, 200)
				if r.Phases.Reused || r.Phases.Protocol != "HTTP/1.1" {
					t.Errorf("request %d: phases are %+v", i, r.Phases)
				}
				answered <- struct{}{}
				rx.WaitClosed(i)
			}
			if n := len(rx.Requests()); n != 5 {
				t.Errorf("%d requests, want 5", n)
			}
		})
	}
}

// Where the close and the request cross, the request left: it is an attempt of its own, and isn't repeated.
func TestARequestThatLeftIsNeverRepeated(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *egresstest.Conn){
		"closed": (*egresstest.Conn).Close,
		"reset":  (*egresstest.Conn).Reset,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			var n atomic.Int32
			rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
				if n.Add(1) == 2 {
					end(c)
					return false
				}
				return c.Write(egresstest.OK)
			}))
			wantOK(t, e.post(rx.URL("/")), 200)
			r := e.post(rx.URL("/"))
			if r.Fault != egress.FaultConnect || r.Sent != egress.SentYes || !r.Phases.Reused {
				t.Errorf("got %q, sent %s, reused %v", r.Fault, r.Sent, r.Phases.Reused)
			}
			wantOK(t, e.post(rx.URL("/")), 200)
			if n := len(rx.Requests()); n != 3 {
				t.Errorf("%d requests for 3 attempts", n)
			}
		})
	}
}

// An Idempotency-Key makes net/http resend; here it changes nothing.
func TestAnIdempotencyKeyDoesNotMakeItRepeat(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var n atomic.Int32
	rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
		return n.Add(1) == 1 && c.Write(egresstest.OK)
	}))
	for i, body := range [][]byte{[]byte("{}"), nil} {
		req := request(rx.URL("/"), 0)
		req.Header.Set("Idempotency-Key", "x")
		req.Body = body
		r := e.client.Post(context.Background(), req)
		if i == 0 {
			wantOK(t, r, 200)
		} else {
			want(t, r, 0, egress.FaultConnect, egress.ReasonClosed, egress.SentYes)
		}
	}
	if n := len(rx.Requests()); n != 2 {
		t.Errorf("%d requests for 2 attempts", n)
	}
}

func TestWhatMakesAConnectionUnfitForReuse(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"Connection: close":            egresstest.Response(200, "ok", "Connection: close"),
		"HTTP/1.0":                     "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"more than the length":         egresstest.OK + "more",
		"a second answer":              egresstest.OK + egresstest.OK,
		"a body with a status without": "HTTP/1.1 204 No Content\r\n\r\nbody",
		"a body too large to read":     egresstest.Response(200, strings.Repeat("a", 64<<10)),
		"a broken chunk":               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			rx := egresstest.NewReceiver(t, egresstest.Always(raw))
			for range 2 {
				if r := e.post(rx.URL("/")); r.Fault != "" || r.Phases.Reused {
					t.Errorf("fault %q, reused %v", r.Fault, r.Phases.Reused)
				}
			}
			if n := len(rx.Connections()); n != 2 || e.client.Idle() != 0 {
				t.Errorf("%d connections, %d idle; want 2, 0", n, e.client.Idle())
			}
		})
	}
}

func TestAnIdleConnectionThatSpeaksIsDropped(t *testing.T) {
	t.Parallel()
	e := setup(t)
	spoken := make(chan struct{})
	speak := make(chan struct{})
	rx := egresstest.NewReceiver(t, egresstest.InTurn(
		egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
			c.Write(egresstest.OK)
			<-speak
			c.Write("HTTP/1.1 500 Not For You\r\nContent-Length: 0\r\n\r\n")
			close(spoken)
			c.Hang()
			return false
		}),
		egresstest.Always(egresstest.OK),
	))
	wantOK(t, e.post(rx.URL("/")), 200)
	close(speak)
	<-spoken
	r := e.post(rx.URL("/"))
	wantOK(t, r, 200)
	if r.Phases.Reused {
		t.Error("it was used again")
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const n = 6
	together := func(e *env, urls ...string) {
		var all sync.WaitGroup
		for _, url := range urls {
			for range n {
				all.Go(func() { wantOK(t, e.post(url), 200) })
			}
		}
		all.Wait()
	}
	// barrier answers once n requests are there, so that there are n connections.
	barrier := func() egresstest.Script {
		var mu sync.Mutex
		waiting, open := 0, make(chan struct{})
		return egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
			mu.Lock()
			if waiting++; waiting == n {
				close(open)
			}
			mu.Unlock()
			<-open
			return c.Write(egresstest.OK)
		})
	}
	t.Run("for one host", func(t *testing.T) {
		t.Parallel()
		e := setup(t, func(c *egress.Config) { c.MaxIdlePerHost = 2 })
		rx := egresstest.NewReceiver(t, barrier())
		together(e, rx.URL("/"))
		if got := e.client.Idle(); got != 2 || len(rx.Connections()) != n {
			t.Errorf("%d of %d connections are idle, want 2", got, len(rx.Connections()))
		}
	})
	t.Run("in all", func(t *testing.T) {
		t.Parallel()
		e := setup(t, func(c *egress.Config) { c.MaxIdle = 4 })
		one, two := egresstest.NewReceiver(t, barrier()), egresstest.NewReceiver(t, barrier())
		together(e, one.URL("/"), two.URL("/"))
		if got := e.client.Idle(); got != 4 {
			t.Errorf("%d connections are idle, want 4", got)
		}
	})
	t.Run("to none", func(t *testing.T) {
		t.Parallel()
		for _, f := range []func(*egress.Config){
			func(c *egress.Config) { c.MaxIdle = -1 },
			func(c *egress.Config) { c.MaxIdlePerHost = -1 },
		} {
			e := setup(t, f)
			rx := egresstest.NewReceiver(t, barrier())
			together(e, rx.URL("/"))
			if got := e.client.Idle(); got != 0 {
				t.Errorf("%d connections are idle, want none", got)
			}
		}
	})
}

func TestAConnectionIsGivenUpAtTheEndOfItsLife(t *testing.T) {
	t.Parallel()
	e := setup(t, func(c *egress.Config) { c.ConnLife = 50 * time.Millisecond })
	rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.OK))
	wantOK(t, e.post(rx.URL("/")), 200)
	rx.WaitClosed(0)
	if e.client.Idle() != 0 {
		t.Error("it still waits for re-use")
	}
	t.Run("but not under a request", func(t *testing.T) {
		slow := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, _ *egresstest.Request) bool {
			return c.Pause(200*time.Millisecond) && c.Write(egresstest.OK)
		}))
		wantOK(t, e.post(slow.URL("/")), 200)
		slow.WaitClosed(0)
	})
}

func TestCloseEndsIdleConnectionsAndRefusesMore(t *testing.T) {
	t.Parallel()
	e := setup(t)
	rx := egresstest.NewReceiver(t, egresstest.Always(egresstest.OK))
	wantOK(t, e.post(rx.URL("/")), 200)
	e.client.Close()
	rx.WaitClosed(0)
	want(t, e.post(rx.URL("/")), 0, egress.FaultInternal, egress.ReasonClientClosed, egress.SentNo)
	e.client.Close()
}

func TestManyPostsAtOnce(t *testing.T) {
	t.Parallel()
	e := setup(t, func(c *egress.Config) { c.MaxIdlePerHost, c.ConnLife = 3, 20*time.Millisecond })
	rx := egresstest.NewReceiver(t, egresstest.Each(func(c *egresstest.Conn, req *egresstest.Request) bool {
		if len(req.Body)%5 == 0 {
			c.Write(egresstest.OK)
			return false // closes: the next one on this connection must not be lost
		}
		return c.Write(egresstest.OK)
	}))
	var all sync.WaitGroup
	var sent, answered atomic.Int32
	for range 20 {
		all.Go(func() {
			for i := range 20 {
				req := request(rx.URL("/"), egresstest.Patience)
				req.Body = make([]byte, i)
				r := e.client.Post(context.Background(), req)
				if r.Sent == egress.SentYes {
					sent.Add(1)
				}
				if r.Status == 200 {
					answered.Add(1)
				}
			}
		})
	}
	all.Wait()
	requests := int32(len(rx.Requests()))
	// A request that crosses with the receiver's close left, but isn't read: hence the range.
	if requests < answered.Load() || requests > sent.Load() || sent.Load() != 400 {
		t.Errorf("%d answered, %d requests, %d sent of 400", answered.Load(), requests, sent.Load())
	}
}
