package delivery

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egress"
)

// Outcome is what an attempt came to: a closed set, and the label of the metric.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded   Outcome = "succeeded"
	OutcomeFailed      Outcome = "failed"
	OutcomeDeferred    Outcome = "deferred"
	OutcomeRejected    Outcome = "rejected"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeInternal    Outcome = "internal"
)

// Class says what an attempt met: a closed set.
type Class string

// The classes.
const (
	ClassOK          Class = "ok"
	ClassDNS         Class = "dns"
	ClassConnect     Class = "connect"
	ClassTLS         Class = "tls"
	ClassTimeout     Class = "timeout"
	ClassProtocol    Class = "protocol"
	ClassBlocked     Class = "blocked"
	ClassInterrupted Class = "interrupted"
	ClassInternal    Class = "internal"
	Class3xx         Class = "http_3xx"
	Class4xx         Class = "http_4xx"
	Class410         Class = "http_410"
	Class429         Class = "http_429"
	Class5xx         Class = "http_5xx"
)

// Health is what an attempt says of its endpoint.
type Health string

// Only what the receiver or the network did counts; never our own errors, nor a deferral.
const (
	HealthUntouched Health = ""
	HealthGood      Health = "good"
	HealthBad       Health = "bad"
)

// Policy is what the verdict goes by.
type Policy struct {
	Schedule         []time.Duration // delays between tries; an endpoint may have its own
	Jitter           float64         // share of a delay that it may be off by, to either side
	RetryAfterMax    time.Duration   // a Retry-After is cut to this
	DeferralsMax     int             // deferrals a run that spend no try; the next one is a failure
	RunMaxAge        time.Duration   // a run older than this ends whatever is left
	InternalFirst    time.Duration   // after an error of our own, doubling up to InternalMax, for InternalFor
	InternalMax      time.Duration
	InternalFor      time.Duration
	InterruptedFree  int           // times a run that an interrupted delivery is due at once
	InterruptedFirst time.Duration // then this, doubling up to InterruptedMax
	InterruptedMax   time.Duration
	InterruptedLast  int // this one ends it
}

// DefaultPolicy is the policy of the documented defaults.
func DefaultPolicy() Policy {
	return Policy{
		Schedule: DefaultSchedule(), Jitter: 0.1,
		RetryAfterMax: 10 * time.Hour, DeferralsMax: 20,
		RunMaxAge:     192 * time.Hour,
		InternalFirst: time.Minute, InternalMax: time.Hour, InternalFor: 24 * time.Hour,
		InterruptedFree: 2, InterruptedFirst: time.Minute, InterruptedMax: time.Hour, InterruptedLast: 10,
	}
}

// Progress is how far a delivery's run had come before an attempt.
type Progress struct {
	Tries         int // spent
	Deferrals     int
	Interruptions int           // in a row
	InternalFor   time.Duration // since the first of the internal errors in a row; 0: there is none
	RunAge        time.Duration
	Schedule      []time.Duration // the endpoint's own; nil: the policy's
}

// Verdict is what an attempt means for its delivery, its endpoint and its job.
type Verdict struct {
	Outcome Outcome
	Class   Class
	Reason  string // finer than the class; may be empty
	State   State
	Because string        // the delivery's reason, where the state needs one
	Spent   bool          // a try of the schedule
	Delay   time.Duration // until the next attempt, while the state is open
	Health  Health
	Gone    bool // the endpoint is to be disabled, reason gone
	Died    bool // one more interruption in a row: the process died over it
}

// Judge decides what an attempt means. It is pure: at is a random number in [0, 1) for the jitter, and now the
// time that a Retry-After date is measured from.
func (p Policy) Judge(r egress.Result, before Progress, now time.Time, at float64) Verdict {
	v := Verdict{Class: classify(r), Reason: string(r.Reason)}
	switch {
	case v.Class == ClassInterrupted:
		return p.interrupted(v, before, 0)
	case v.Class == ClassInternal:
		return p.Internal(v.Reason, before)
	case v.Class == ClassBlocked:
		v.Outcome, v.State, v.Because, v.Health, v.Spent = OutcomeRejected, Rejected, ReasonBlocked, HealthBad, true
		return v
	case v.Class == ClassOK:
		v.Outcome, v.State, v.Health, v.Spent = OutcomeSucceeded, Succeeded, HealthGood, true
		return v
	case v.Class == Class410:
		v.Outcome, v.State, v.Because, v.Health, v.Spent, v.Gone = OutcomeRejected, Rejected, ReasonGone, HealthBad, true, true
		return v
	}
	if wait, ok := retryAfter(r, now); ok && before.Deferrals < p.DeferralsMax {
		v.Outcome = OutcomeDeferred
		v.Delay = max(min(wait, p.RetryAfterMax), p.gap(before.Schedule, before.Tries, at))
		v.State = openState(before.Tries)
		return p.aged(v, before)
	}
	v.Outcome, v.Health, v.Spent = OutcomeFailed, HealthBad, true
	if before.Tries+1 >= p.Tries(before.Schedule) {
		v.State = Exhausted
		return v
	}
	v.State, v.Delay = Retrying, p.gap(before.Schedule, before.Tries, at)
	return p.aged(v, before)
}

// Internal is the verdict on an error of our own: a secret that can't be unsealed, a panic, a spoiled row. It
// spends no try and says nothing of the endpoint.
func (p Policy) Internal(reason string, before Progress) Verdict {
	// Delays that double from the first add up to one less than the next: so the time since the first error in
	// a row gives the next delay, without a count of them.
	v := Verdict{Outcome: OutcomeInternal, Class: ClassInternal, Reason: reason, State: openState(before.Tries),
		Delay: min(before.InternalFor+p.InternalFirst, p.InternalMax)}
	if before.InternalFor+v.Delay > p.InternalFor {
		v.State, v.Because, v.Delay = Exhausted, ReasonInternal, 0
		return v
	}
	return p.aged(v, before)
}

// TakenOver is the verdict on an attempt whose process died.
func (p Policy) TakenOver(before Progress) Verdict {
	return p.interrupted(Verdict{Class: ClassInterrupted}, before, p.InterruptedFree)
}

// interrupted puts the delivery back in line. At a shutdown (free 0) it is due at once, every time; after a
// death at once only the first times, for the delivery may be what kills.
func (p Policy) interrupted(v Verdict, before Progress, free int) Verdict {
	v.Outcome, v.State = OutcomeInterrupted, openState(before.Tries)
	if free == 0 {
		return v
	}
	v.Died = true
	n := before.Interruptions + 1
	switch {
	case n >= p.InterruptedLast:
		v.State, v.Because, v.Class = Exhausted, ReasonInterrupted, ClassInternal
	case n > free:
		v.Delay = doubling(p.InterruptedFirst, p.InterruptedMax, n-free-1)
	}
	return v
}

// ScopeRevoked is the verdict when the endpoint may no longer receive the event: nothing is sent.
func ScopeRevoked() Verdict {
	return Verdict{Outcome: OutcomeRejected, Class: ClassBlocked, Reason: ReasonScopeRevoked, State: Rejected, Because: ReasonScopeRevoked}
}

// aged ends a run that would go on past its greatest age.
func (p Policy) aged(v Verdict, before Progress) Verdict {
	if before.RunAge > p.RunMaxAge {
		v.State, v.Because, v.Delay = Exhausted, ReasonRunTooOld, 0
	}
	return v
}

// gap is the schedule's delay after the try that follows `tries` spent ones.
func (p Policy) gap(schedule []time.Duration, tries int, at float64) time.Duration {
	if len(schedule) == 0 {
		schedule = p.Schedule
	}
	return jittered(schedule[min(tries, len(schedule)-1)], p.Jitter, at)
}

func openState(tries int) State {
	if tries > 0 {
		return Retrying
	}
	return Pending
}

func classify(r egress.Result) Class {
	switch r.Fault {
	case "":
	case egress.FaultDNS:
		return ClassDNS
	case egress.FaultConnect:
		return ClassConnect
	case egress.FaultTLS:
		return ClassTLS
	case egress.FaultTimeout:
		return ClassTimeout
	case egress.FaultBlocked:
		return ClassBlocked
	case egress.FaultInterrupted:
		return ClassInterrupted
	case egress.FaultInternal:
		return ClassInternal
	default:
		return ClassProtocol
	}
	switch {
	case r.Status >= 200 && r.Status <= 299:
		return ClassOK
	case r.Status >= 300 && r.Status <= 399:
		return Class3xx
	case r.Status == http.StatusGone:
		return Class410
	case r.Status == http.StatusTooManyRequests:
		return Class429
	case r.Status >= 400 && r.Status <= 499:
		return Class4xx
	case r.Status >= 500 && r.Status <= 599:
		return Class5xx
	default:
		return ClassProtocol
	}
}

// retryAfter reads Retry-After (RFC 9110, 10.2.3: seconds or a date) from the answers that may defer.
func retryAfter(r egress.Result, now time.Time) (time.Duration, bool) {
	switch r.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0, false
	}
	if r.Fault != "" {
		return 0, false
	}
	text := strings.TrimSpace(r.Header.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	if digits := strings.TrimLeft(text, "0123456789"); digits == "" {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil { // more digits than an int32 has: longer than any cap
			seconds = 1<<31 - 1
		}
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(date.Sub(now), 0), true
}
