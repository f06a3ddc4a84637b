package delivery

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// Runner makes attempts: it composes, signs, sends and judges. It records nothing.
type Runner struct {
	endpoints *endpoint.Store
	client    *egress.Client
	policy    Policy
	agent     string
	margin    time.Duration
	log       *slog.Logger
}

// NewRunner returns a runner. agent is the User-Agent; margin is by how much a lease outlives its attempt.
func NewRunner(endpoints *endpoint.Store, client *egress.Client, policy Policy, agent string, margin time.Duration, log *slog.Logger) *Runner {
	return &Runner{endpoints: endpoints, client: client, policy: policy, agent: agent, margin: margin, log: log}
}

// attempt makes one attempt under its lease. It always returns a result: a panic is an error of our own.
func (r *Runner) attempt(ctx context.Context, g *grant) (res result) {
	sent := false
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("an attempt panicked", "panic", p, "event_id", g.key.EventID, "endpoint_id", g.key.EndpointID, "stack", string(debug.Stack()))
			res = g.spoil(r.policy, "panic")
			if sent {
				res.sent = SentUnknown
			}
		}
	}()
	target, err := r.endpoints.Target(ctx, g.key.EndpointID, g.version)
	switch {
	case err != nil && ctx.Err() != nil:
		return r.judge(g, egress.Result{Fault: egress.FaultInterrupted})
	case errors.Is(err, endpoint.ErrNotFound):
		return result{grant: g, sent: SentNo, elapsed: time.Since(g.granted), verdict: Verdict{
			Outcome: OutcomeInternal, Class: ClassInternal, Reason: ReasonEndpointDeleted, State: Cancelled, Because: ReasonEndpointDeleted}}
	case err != nil:
		r.log.Error("an endpoint can't be used", "error", err, "endpoint_id", g.key.EndpointID)
		return g.spoil(r.policy, "endpoint_unreadable")
	case len(g.message.Data) == 0:
		return result{grant: g, sent: SentNo, elapsed: time.Since(g.granted), verdict: Verdict{
			Outcome: OutcomeInternal, Class: ClassInternal, Reason: ReasonEventErased, State: Cancelled, Because: ReasonEventErased}}
	case !g.message.valid():
		return g.spoil(r.policy, "event_unreadable")
	case !endpoint.Admits(target.Scopes, g.scopes, g.previous):
		return result{grant: g, verdict: ScopeRevoked(), sent: SentNo, elapsed: time.Since(g.granted)}
	}
	// A process that was frozen between its grant and here may have lost the lease, and what is sent after the
	// lease's end may be sent twice. The monotonic clock of the two readings counts through a freeze.
	if time.Since(g.granted) > r.margin/2 {
		return r.judge(g, egress.Result{Fault: egress.FaultInterrupted})
	}
	now := time.Now()
	body := g.message.body()
	trace := ""
	if target.TraceParent {
		trace = traceParent(g.traceFrom)
	}
	sent = true
	res = r.judge(g, r.client.Post(ctx, egress.Request{
		URL: target.URL, Body: body, Timeout: target.Timeout,
		Header: headers(target.Header, g.message, g.number, now, body, target.Signer, r.agent, trace),
	}))
	res.trace = trace
	return res
}

// disableTx disables an endpoint that has said it is gone.
func (r *Runner) disableTx(ctx context.Context, tx pgx.Tx, tenantID, endpointID uuid.UUID) error {
	_, err := r.endpoints.DisableTx(ctx, tx, tenantID, endpointID, endpoint.ReasonGone, "gateway")
	return err
}

// judge turns what the client met into a result, and logs the attempt.
func (r *Runner) judge(g *grant, h egress.Result) result {
	res := result{grant: g, http: h, sent: SentNo, verdict: r.policy.Judge(h, g.before, time.Now(), mathrand.Float64()),
		elapsed: time.Since(g.granted)}
	if h.Sent == egress.SentYes {
		res.sent = SentYes
	}
	r.log.Info("attempt",
		"event_id", typeid.Format(typeid.Event, g.key.EventID), "endpoint_id", typeid.Format(typeid.Endpoint, g.key.EndpointID),
		"tenant_id", typeid.Format(typeid.Tenant, g.tenantID), "number", g.number,
		"outcome", res.verdict.Outcome, "class", res.verdict.Class, "reason", res.verdict.Reason,
		"status", h.Status, "state", res.verdict.State, "ms", h.Phases.Total.Milliseconds())
	return res
}

// traceParent continues the caller's trace in a span of this attempt's own (W3C Trace Context, 3.2); empty where
// the caller gave none.
func traceParent(from *string) string {
	if from == nil {
		return ""
	}
	parts := strings.Split(*from, "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	var span [8]byte
	rand.Read(span[:]) // never fails
	return "00-" + parts[1] + "-" + hex.EncodeToString(span[:]) + "-" + parts[3]
}

// sameMillisecond bounds the ids that share the first 48 bits of one: what those of an event, its deliveries and
// their attempts have in common.
func sameMillisecond(id uuid.UUID) (from, to uuid.UUID) {
	copy(from[:6], id[:6])
	copy(to[:6], id[:6])
	for i := 6; i < len(to); i++ {
		to[i] = 0xff
	}
	return from, to
}
