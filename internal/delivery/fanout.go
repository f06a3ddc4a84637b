package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/outbox"
)

// namedSkips is how many endpoints an event's row names for one reason.
const namedSkips = 50

// FanoutConfig says how first attempts begin.
type FanoutConfig struct {
	// Net is how long after its hand-over a first attempt's job rings if nobody has delivered by then; spread by
	// up to as much again, or the jobs of one pass would ring together. 30 s.
	Net time.Duration
	// FailingDelay is how far out a new delivery to a failing endpoint is due. 5 min.
	FailingDelay time.Duration
	// HandOver is told, after the commit, which endpoints have something due. Nil where this process has no
	// workers: the jobs are then due at once, for the workers of other processes.
	HandOver func(endpoints []uuid.UUID)
	// Tries is how many attempts the job of an endpoint without a schedule of its own is made for; 18.
	Policy Policy
}

// Fanout is the relay's router that makes deliveries.
type Fanout struct {
	endpoints *endpoint.Directory
	jobs      *river.Client[pgx.Tx]
	cfg       FanoutConfig
}

// NewFanout returns the router.
func NewFanout(endpoints *endpoint.Directory, jobs *river.Client[pgx.Tx], cfg FanoutConfig) *Fanout {
	if cfg.Net == 0 {
		cfg.Net = 30 * time.Second
	}
	if cfg.FailingDelay == 0 {
		cfg.FailingDelay = 5 * time.Minute
	}
	return &Fanout{endpoints: endpoints, jobs: jobs, cfg: cfg}
}

// match is one delivery to be made.
type match struct {
	event  *outbox.Claimed
	target *endpoint.Target
	reason string // why it is held; empty: it is due
}

// fanned is what one pass will write.
type fanned struct {
	f       *Fanout
	matches []match
	first   []int // the matches of event i are matches[first[i]:first[i+1]]
	facts   []outbox.Fanout
	due     []uuid.UUID
}

// RouteTx matches the events with the endpoints of the moment: their set is read in tx, after the claim, so an
// endpoint that was created before an event was posted always gets it.
func (f *Fanout) RouteTx(ctx context.Context, tx pgx.Tx, events []outbox.Claimed) (outbox.Route, error) {
	seen := make(map[uuid.UUID]bool)
	var tenants []uuid.UUID
	for i := range events {
		if t := events[i].TenantID; !seen[t] {
			seen[t] = true
			tenants = append(tenants, t)
		}
	}
	sets, err := f.endpoints.SetsTx(ctx, tx, tenants)
	if err != nil {
		return nil, fmt.Errorf("read the endpoints of %d tenants: %w", len(tenants), err)
	}
	r := &fanned{f: f, first: make([]int, 1, len(events)+1), facts: make([]outbox.Fanout, len(events))}
	for i := range events {
		e := &events[i]
		if set := sets[e.TenantID]; set != nil {
			for _, v := range set.Match(e.Type, e.Scopes, e.PreviousScopes) {
				r.add(e, v, &r.facts[i])
			}
		}
		r.first = append(r.first, len(r.matches))
	}
	return r, nil
}

func (r *fanned) add(e *outbox.Claimed, v endpoint.Verdict, fact *outbox.Fanout) {
	m := match{event: e, target: v.Endpoint}
	switch v.Why {
	case endpoint.WhyMatched:
	case endpoint.WhyPaused:
		m.reason = ReasonPaused
	case endpoint.WhyDisabled:
		m.reason = ReasonDisabled
	default:
		note(fact, string(v.Why), v.Endpoint.ID, v.Why == endpoint.WhyScope)
		return
	}
	fact.Deliveries++
	if m.reason != "" {
		fact.Held++
		note(fact, m.reason, v.Endpoint.ID, true)
	}
	r.matches = append(r.matches, m)
}

// note counts an endpoint under a reason, and names it where that helps.
func note(f *outbox.Fanout, why string, id uuid.UUID, named bool) {
	if f.Skipped == nil {
		f.Skipped = make(map[string]int)
	}
	f.Skipped[why]++
	if !named || len(f.Endpoints[why]) >= namedSkips {
		return
	}
	if f.Endpoints == nil {
		f.Endpoints = make(map[string][]uuid.UUID)
	}
	f.Endpoints[why] = append(f.Endpoints[why], id)
}

// Size is how many deliveries event i makes.
func (r *fanned) Size(i int) int { return r.first[i+1] - r.first[i] }

// Describe says on event i's row what became of it.
func (r *fanned) Describe(i int, f *outbox.Fanout) { *f = r.facts[i] }

// Committed hands the endpoints that have something due to the dispatcher.
func (r *fanned) Committed() {
	if r.f.cfg.HandOver != nil && len(r.due) > 0 {
		r.f.cfg.HandOver(r.due)
	}
}

// WriteTx makes the deliveries of the first n events, and a job for each that is not held.
func (r *fanned) WriteTx(ctx context.Context, tx pgx.Tx, n int) error {
	matches := r.matches[:r.first[n]]
	if len(matches) == 0 {
		return nil
	}
	failing, err := failingTx(ctx, tx, matches)
	if err != nil {
		return err
	}
	jobs, err := r.insertJobsTx(ctx, tx, matches, failing)
	if err != nil {
		return err
	}
	return r.insertDeliveriesTx(ctx, tx, matches, failing, jobs)
}

// failingTx says which of the endpoints are failing: their new deliveries are due later.
func failingTx(ctx context.Context, tx pgx.Tx, matches []match) (map[uuid.UUID]bool, error) {
	seen := make(map[uuid.UUID]bool)
	var endpoints, tenants []uuid.UUID
	for _, m := range matches {
		if m.reason == "" && !seen[m.target.ID] {
			seen[m.target.ID] = true
			endpoints = append(endpoints, m.target.ID)
			tenants = append(tenants, m.target.TenantID)
		}
	}
	rows, err := tx.Query(ctx, `
		select s.endpoint_id
		from unnest($1::uuid[], $2::uuid[]) e(id, tenant_id)
		join gateway.endpoint_state s on s.endpoint_id = e.id and s.tenant_id = e.tenant_id
		where s.failing_since is not null`, endpoints, tenants)
	if err != nil {
		return nil, fmt.Errorf("read which endpoints fail: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("read which endpoints fail: %w", err)
	}
	failing := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		failing[id] = true
	}
	return failing, nil
}

// insertJobsTx makes a job for each match that is not held, and returns their ids; 0 stands for none.
func (r *fanned) insertJobsTx(ctx context.Context, tx pgx.Tx, matches []match, failing map[uuid.UUID]bool) ([]int64, error) {
	now := time.Now()
	params := make([]river.InsertManyParams, 0, len(matches))
	for _, m := range matches {
		if m.reason != "" {
			continue
		}
		opts := &river.InsertOpts{MaxAttempts: r.f.cfg.Policy.Tries(m.target.Schedule), Queue: Queue, Priority: 1}
		switch {
		case failing[m.target.ID]:
			opts.ScheduledAt = now.Add(r.f.cfg.FailingDelay)
		case r.f.cfg.HandOver != nil:
			opts.ScheduledAt = now.Add(r.f.cfg.Net + rand.N(r.f.cfg.Net))
		}
		params = append(params, river.InsertManyParams{
			Args: Args{EventID: m.event.ID, EndpointID: m.target.ID}, InsertOpts: opts,
		})
	}
	ids := make([]int64, len(matches))
	if len(params) == 0 {
		return ids, nil
	}
	made, err := r.f.jobs.InsertManyTx(ctx, tx, params)
	if err != nil {
		return nil, fmt.Errorf("insert %d jobs: %w", len(params), err)
	}
	next := 0
	for i, m := range matches {
		if m.reason == "" {
			ids[i] = made[next].Job.ID
			next++
		}
	}
	return ids, nil
}

// insertDeliveriesTx makes the deliveries and their places in line.
func (r *fanned) insertDeliveriesTx(ctx context.Context, tx pgx.Tx, matches []match, failing map[uuid.UUID]bool, jobs []int64) error {
	n := len(matches)
	events, endpoints, tenants := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
	types, subjects, reasons := make([]string, n), make([]*string, n), make([]*string, n)
	accepted, jobIDs, delays := make([]time.Time, n), make([]*int64, n), make([]time.Duration, n)
	told := make(map[uuid.UUID]bool)
	for i, m := range matches {
		events[i], endpoints[i], tenants[i] = m.event.ID, m.target.ID, m.event.TenantID
		types[i], subjects[i], accepted[i] = m.event.Type, m.event.Subject, m.event.AcceptedAt
		switch {
		case m.reason != "":
			reasons[i] = &m.reason
			continue
		case failing[m.target.ID]:
			delays[i] = r.f.cfg.FailingDelay
		case !told[m.target.ID]:
			told[m.target.ID] = true
			r.due = append(r.due, m.target.ID)
		}
		jobIDs[i] = &jobs[i]
	}
	_, err := tx.Exec(ctx, `
		with made as (
			insert into gateway.deliveries (event_id, endpoint_id, id, tenant_id, type, subject, accepted_at,
				state, reason, job_id, next_attempt_at)
			select m.event_id, m.endpoint_id, gateway.uuid_v7_beside(m.event_id), m.tenant_id, m.type, m.subject, m.accepted_at,
				case when m.reason is null then 'pending' else 'held' end, m.reason, m.job_id,
				case when m.reason is null then statement_timestamp() + m.delay end
			from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[],
				$7::text[], $8::bigint[], $9::interval[])
				m(event_id, endpoint_id, tenant_id, type, subject, accepted_at, reason, job_id, delay)
			returning event_id, endpoint_id, tenant_id, next_attempt_at)
		insert into gateway.line (endpoint_id, due_at, event_id, tenant_id)
		select endpoint_id, next_attempt_at, event_id, tenant_id from made where next_attempt_at is not null`,
		events, endpoints, tenants, types, subjects, accepted, reasons, jobIDs, delays)
	if err != nil {
		return fmt.Errorf("insert %d deliveries: %w", n, err)
	}
	return nil
}
