package delivery_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/egress"
)

// exact is the default policy without jitter: the middle of each spread.
const exact = 0.5

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func answer(status int, retryAfter string) egress.Result {
	r := egress.Result{Status: status, Sent: egress.SentYes, Header: http.Header{}}
	if retryAfter != "" {
		r.Header.Set("Retry-After", retryAfter)
	}
	return r
}

func TestJudge(t *testing.T) {
	t.Parallel()
	p := delivery.DefaultPolicy()

	t.Run("every status has its verdict", func(t *testing.T) {
		t.Parallel()
		for status := 100; status <= 999; status++ {
			v := p.Judge(answer(status, ""), delivery.Progress{}, noon, exact)
			want := delivery.Verdict{Outcome: delivery.OutcomeFailed, State: delivery.Retrying, Spent: true,
				Delay: 5 * time.Second, Health: delivery.HealthBad}
			switch {
			case status >= 200 && status <= 299:
				want = delivery.Verdict{Outcome: delivery.OutcomeSucceeded, Class: delivery.ClassOK, State: delivery.Succeeded, Spent: true, Health: delivery.HealthGood}
			case status == 410:
				want = delivery.Verdict{Outcome: delivery.OutcomeRejected, Class: delivery.Class410, State: delivery.Rejected,
					Because: delivery.ReasonGone, Spent: true, Health: delivery.HealthBad, Gone: true}
			case status == 429:
				want.Class = delivery.Class429
			case status >= 300 && status <= 399:
				want.Class = delivery.Class3xx
			case status >= 400 && status <= 499:
				want.Class = delivery.Class4xx
			case status >= 500 && status <= 599:
				want.Class = delivery.Class5xx
			default:
				want.Class = delivery.ClassProtocol
			}
			if v != want {
				t.Errorf("status %d: %+v, want %+v", status, v, want)
			}
		}
	})

	t.Run("every fault of the network has its class", func(t *testing.T) {
		t.Parallel()
		for fault, class := range map[egress.Fault]delivery.Class{
			egress.FaultDNS: delivery.ClassDNS, egress.FaultConnect: delivery.ClassConnect, egress.FaultTLS: delivery.ClassTLS,
			egress.FaultTimeout: delivery.ClassTimeout, egress.FaultProtocol: delivery.ClassProtocol,
		} {
			v := p.Judge(egress.Result{Fault: fault}, delivery.Progress{}, noon, exact)
			if v.Class != class || v.Outcome != delivery.OutcomeFailed || v.State != delivery.Retrying || v.Health != delivery.HealthBad || !v.Spent {
				t.Errorf("fault %s: %+v", fault, v)
			}
		}
	})

	t.Run("a blocked attempt ends the delivery and counts for health", func(t *testing.T) {
		t.Parallel()
		v := p.Judge(egress.Result{Fault: egress.FaultBlocked}, delivery.Progress{}, noon, exact)
		if v.Outcome != delivery.OutcomeRejected || v.Class != delivery.ClassBlocked || v.State != delivery.Rejected || v.Health != delivery.HealthBad {
			t.Errorf("%+v", v)
		}
	})

	t.Run("a cut at shutdown spends nothing and is due at once, every time", func(t *testing.T) {
		t.Parallel()
		for n := range 20 {
			v := p.Judge(egress.Result{Fault: egress.FaultInterrupted, Sent: egress.SentYes}, delivery.Progress{Tries: 3, Interruptions: n}, noon, exact)
			if v.Outcome != delivery.OutcomeInterrupted || v.State != delivery.Retrying || v.Delay != 0 || v.Spent || v.Health != delivery.HealthUntouched || v.Died {
				t.Errorf("%d: %+v", n, v)
			}
		}
	})

	t.Run("Retry-After defers, within its bounds, and spends no try", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			status int
			header string
			tries  int
			want   time.Duration // 0: not deferred
		}{
			{429, "7", 0, 7 * time.Second},
			{502, "7", 0, 7 * time.Second},
			{503, "7", 0, 7 * time.Second},
			{504, "7", 0, 7 * time.Second},
			{429, "7", 1, 5 * time.Minute}, // the schedule is later
			{429, "0", 0, 5 * time.Second},
			{429, "36001", 0, 10 * time.Hour},
			{429, "99999999999999999999", 0, 10 * time.Hour},
			{429, noon.Add(20 * time.Second).Format(http.TimeFormat), 0, 20 * time.Second},
			{429, noon.Add(-time.Hour).Format(http.TimeFormat), 0, 5 * time.Second},
			{429, "", 0, 0},
			{429, "-1", 0, 0},
			{429, "1.5", 0, 0},
			{429, "soon", 0, 0},
			{500, "7", 0, 0},
			{404, "7", 0, 0},
			{501, "7", 0, 0},
		} {
			v := p.Judge(answer(c.status, c.header), delivery.Progress{Tries: c.tries}, noon, exact)
			deferred := v.Outcome == delivery.OutcomeDeferred
			if deferred != (c.want > 0) || deferred && (v.Delay != c.want || v.Spent || v.Health != delivery.HealthUntouched) {
				t.Errorf("%d with Retry-After %q after %d tries: %+v", c.status, c.header, c.tries, v)
			}
		}
		if v := p.Judge(answer(429, "7"), delivery.Progress{Deferrals: 19}, noon, exact); v.Outcome != delivery.OutcomeDeferred {
			t.Errorf("the 20th deferral: %+v", v)
		}
		if v := p.Judge(answer(429, "7"), delivery.Progress{Deferrals: 20}, noon, exact); v.Outcome != delivery.OutcomeFailed || !v.Spent {
			t.Errorf("the 21st deferral: %+v", v)
		}
	})

	t.Run("18 tries span 127.6 hours, and the last one exhausts", func(t *testing.T) {
		t.Parallel()
		var span time.Duration
		for tries := range 17 {
			v := p.Judge(answer(500, ""), delivery.Progress{Tries: tries}, noon, exact)
			if v.State != delivery.Retrying {
				t.Fatalf("after try %d: %+v", tries+1, v)
			}
			span += v.Delay
		}
		if want := 127*time.Hour + 35*time.Minute + 5*time.Second; span != want {
			t.Errorf("the schedule spans %v, want %v", span, want)
		}
		if v := p.Judge(answer(500, ""), delivery.Progress{Tries: 17}, noon, exact); v.State != delivery.Exhausted || v.Delay != 0 || !v.Spent {
			t.Errorf("after try 18: %+v", v)
		}
	})

	t.Run("jitter is ±10 % of the delay", func(t *testing.T) {
		t.Parallel()
		low := p.Judge(answer(500, ""), delivery.Progress{Tries: 2}, noon, 0).Delay
		high := p.Judge(answer(500, ""), delivery.Progress{Tries: 2}, noon, 0.999999).Delay
		if low != 27*time.Minute || high < 32*time.Minute+59*time.Second || high > 33*time.Minute {
			t.Errorf("between %v and %v", low, high)
		}
	})

	t.Run("an endpoint's own schedule replaces the gateway's", func(t *testing.T) {
		t.Parallel()
		own := []time.Duration{time.Second, time.Minute}
		if v := p.Judge(answer(500, ""), delivery.Progress{Tries: 1, Schedule: own}, noon, exact); v.Delay != time.Minute {
			t.Errorf("%+v", v)
		}
		if v := p.Judge(answer(500, ""), delivery.Progress{Tries: 2, Schedule: own}, noon, exact); v.State != delivery.Exhausted {
			t.Errorf("%+v", v)
		}
	})

	t.Run("no run lasts longer than eight days", func(t *testing.T) {
		t.Parallel()
		old := delivery.Progress{Tries: 2, RunAge: 8*24*time.Hour + time.Second}
		for _, r := range []egress.Result{answer(500, ""), answer(429, "7")} {
			if v := p.Judge(r, old, noon, exact); v.State != delivery.Exhausted || v.Because != delivery.ReasonRunTooOld {
				t.Errorf("%+v", v)
			}
		}
		if v := p.Judge(answer(200, ""), old, noon, exact); v.State != delivery.Succeeded {
			t.Errorf("a success of an old run: %+v", v)
		}
	})
}

func TestInternal(t *testing.T) {
	t.Parallel()
	p := delivery.DefaultPolicy()
	var since time.Duration
	var delays []time.Duration
	for range 100 {
		v := p.Internal("panic", delivery.Progress{InternalFor: since})
		if v.Spent || v.Health != delivery.HealthUntouched || v.Class != delivery.ClassInternal {
			t.Fatalf("%+v", v)
		}
		if v.State == delivery.Exhausted {
			if since > 24*time.Hour || since < 22*time.Hour {
				t.Errorf("given up after %v", since)
			}
			break
		}
		delays = append(delays, v.Delay)
		since += v.Delay
	}
	for i, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		if delays[i] != want {
			t.Errorf("delay %d is %v, want %v", i+1, delays[i], want)
		}
	}
}

func TestTakenOver(t *testing.T) {
	t.Parallel()
	p := delivery.DefaultPolicy()
	want := []time.Duration{0, 0, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour}
	for n, delay := range want {
		v := p.TakenOver(delivery.Progress{Interruptions: n})
		if v.State != delivery.Pending || v.Delay != delay || v.Spent || !v.Died || v.Health != delivery.HealthUntouched {
			t.Errorf("interruption %d: %+v, want a delay of %v", n+1, v, delay)
		}
	}
	if v := p.TakenOver(delivery.Progress{Interruptions: 9}); v.State != delivery.Exhausted || v.Class != delivery.ClassInternal || v.Outcome != delivery.OutcomeInterrupted {
		t.Errorf("the tenth: %+v", v)
	}
}
