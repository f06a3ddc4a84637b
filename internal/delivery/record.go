package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// store is the dispatcher's side of the database.
type store struct {
	// db's connections plan for an index where there is one, and never by the values of a batch: fresh tables
	// have no statistics, and a plan that was made for ten rows must not be kept for a thousand in another form.
	db      *pgxpool.Pool
	process uuid.UUID
	margin  time.Duration
	policy  Policy
	// disable ends an endpoint that answered 410, in the transaction that records it.
	disable func(ctx context.Context, tx pgx.Tx, tenantID, endpointID uuid.UUID) error
}

// PlannerSettings are the runtime parameters of a dispatcher's pool: a plan goes by indexes, and is made once. A scan
// that is switched off counts as very dear where it is taken all the same, so that such a statement would be compiled
// (jit) each time, for a hundred milliseconds.
func PlannerSettings() map[string]string {
	return map[string]string{
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "plan_cache_mode": "force_generic_plan", "jit": "off",
	}
}

// bundle is what one transaction records and grants.
type bundle struct {
	results []result
	fills   map[uuid.UUID]uuid.UUID // endpoints to look at, and their tenants (nil where not known)
	slots   int                     // leases that may be granted
}

// done is what came of a batch.
type done struct {
	freed  []bool // for each result: it held its lease to the end
	grants []*grant
}

// ids are all endpoints of the batch, in the order in which they are locked.
func (b *bundle) ids() []uuid.UUID {
	seen := make(map[uuid.UUID]bool, len(b.results)+len(b.fills))
	for id := range b.fills {
		seen[id] = true
	}
	for i := range b.results {
		seen[b.results[i].grant.key.EndpointID] = true
	}
	ids := make([]uuid.UUID, 0, len(seen))
	for id := range seen {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return string(ids[i][:]) < string(ids[j][:]) })
	return ids
}

// gone are the endpoints that answered 410.
func (b *bundle) gone() []*grant {
	var list []*grant
	for i := range b.results {
		if b.results[i].verdict.Gone {
			list = append(list, b.results[i].grant)
		}
	}
	return list
}

// lock is a statement of its own: the next one looks for what is in line, with a snapshot younger than the lock.
const lock = `
	select endpoint_id from gateway.endpoint_state
	where endpoint_id = any ($1) order by endpoint_id for no key update`

// recordAndGrant frees the leases of the results, writes their attempts, moves their deliveries, and gives the
// freed and other free leases to the next in line; all or nothing. A result whose lease is not this process's
// any more changes nothing here.
func (s *store) recordAndGrant(ctx context.Context, b *bundle) (done, error) {
	args, err := b.args(s)
	if err != nil {
		return done{}, err
	}
	ids := b.ids()
	d := done{freed: make([]bool, len(b.results))}
	if gone := b.gone(); len(gone) > 0 {
		err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lock, ids); err != nil {
				return err
			}
			for _, g := range gone {
				if err := s.disable(ctx, tx, g.tenantID, g.key.EndpointID); err != nil {
					return err
				}
			}
			rows, err := tx.Query(ctx, recordAndGrant, args...)
			if err != nil {
				return err
			}
			return d.read(rows)
		})
		if err != nil {
			return done{}, fmt.Errorf("record %d results: %w", len(b.results), err)
		}
		return d, nil
	}
	// Two statements in one round trip, and so in one transaction: pgx sends one Sync, after the last.
	var pipe pgx.Batch
	pipe.Queue(lock, ids)
	if len(b.results) > 0 {
		pipe.Queue(recordAndGrant, args...)
	} else {
		pipe.Queue(grantAlone, args[:4]...)
	}
	res := s.db.SendBatch(ctx, &pipe)
	_, err = res.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = res.Query(); err == nil {
			err = d.read(rows)
		}
	}
	if cerr := res.Close(); err == nil {
		err = cerr // the commit
	}
	if err != nil {
		return done{}, fmt.Errorf("record %d results and grant: %w", len(b.results), err)
	}
	return d, nil
}

// read collects the rows of recordAndGrant: those of freed results carry their number in the batch, the others
// are grants.
func (d *done) read(rows pgx.Rows) error {
	defer rows.Close()
	now := time.Now()
	for rows.Next() {
		var ord *int
		g := &grant{granted: now}
		var internalFor *time.Duration
		var schedule []int32
		var eventID, endpointID, tenantID *uuid.UUID
		var version *int64
		var number, tries, deferrals, interruptions *int
		var trigger, typ *string
		var leased, occurredAt *time.Time
		var runAge *time.Duration
		if err := rows.Scan(&ord, &eventID, &endpointID, &tenantID, &version, &schedule, &number, &trigger, &leased,
			&tries, &deferrals, &interruptions, &internalFor, &runAge,
			&g.message.UID, &typ, &g.message.Subject, &occurredAt, &g.message.Data, &g.scopes, &g.previous, &g.traceFrom); err != nil {
			return err
		}
		if ord != nil {
			d.freed[*ord] = true
			continue
		}
		g.key, g.tenantID, g.version, g.number = Key{*eventID, *endpointID}, *tenantID, *version, *number
		g.trigger, g.leased = *trigger, *leased
		g.before = Progress{Tries: *tries, Deferrals: *deferrals, Interruptions: *interruptions, RunAge: *runAge}
		if internalFor != nil {
			g.before.InternalFor = *internalFor
		}
		g.before.Schedule = seconds(schedule)
		g.message.ID = *eventID
		if typ != nil { // else the event is gone, and so is its data
			g.message.Type, g.message.OccurredAt = *typ, *occurredAt
		}
		d.grants = append(d.grants, g)
	}
	return rows.Err()
}

// args are the parameters of recordAndGrant.
func (b *bundle) args(s *store) ([]any, error) {
	n := len(b.results)
	var (
		events, endpoints, tenants = make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
		numbers, tries             = make([]int32, n), make([]*int16, n)
		outcomes, classes, reasons = make([]string, n), make([]string, n), make([]*string, n)
		sents, statuses            = make([]string, n), make([]*int16, n)
		elapsed                    = make([]time.Duration, n)
		dns, connect, tls          = make([]*int32, n), make([]*int32, n), make([]*int32, n)
		firstByte, total           = make([]*int32, n), make([]*int32, n)
		reused, protocols          = make([]*bool, n), make([]*string, n)
		heads, bodies, cuts        = make([]*string, n), make([][]byte, n), make([]bool, n)
		states, becauses           = make([]string, n), make([]*string, n)
		deferrals, interruptions   = make([]int16, n), make([]int16, n)
		internals, delays          = make([]bool, n), make([]*time.Duration, n)
		traces, triggers           = make([]*string, n), make([]string, n)
		healths                    = make([]string, n)
	)
	for i := range b.results {
		r := &b.results[i]
		g, v, h := r.grant, &r.verdict, &r.http
		events[i], endpoints[i], tenants[i], numbers[i] = g.key.EventID, g.key.EndpointID, g.tenantID, int32(g.number)
		deferrals[i], interruptions[i] = int16(g.before.Deferrals), 0
		if v.Spent {
			tries[i] = ptr(int16(g.before.Tries + 1))
		}
		switch v.Outcome {
		case OutcomeDeferred:
			deferrals[i]++
		case OutcomeInternal:
			internals[i], interruptions[i] = true, int16(g.before.Interruptions)
		case OutcomeInterrupted:
			interruptions[i] = int16(g.before.Interruptions)
			if v.Died {
				interruptions[i]++
			}
		}
		outcomes[i], classes[i], reasons[i], sents[i] = string(v.Outcome), string(v.Class), text(v.Reason), string(r.sent)
		states[i], becauses[i] = string(v.State), text(v.Because)
		if v.State.Open() {
			delays[i] = &v.Delay
		}
		elapsed[i] = r.elapsed
		if h.Status != 0 {
			statuses[i] = ptr(int16(h.Status))
		}
		dns[i], connect[i], tls[i] = micros(h.Phases.DNS), micros(h.Phases.Connect), micros(h.Phases.TLS)
		firstByte[i], total[i] = micros(h.Phases.FirstByte), micros(h.Phases.Total)
		if h.Phases.Protocol != "" {
			reused[i], protocols[i] = &h.Phases.Reused, &h.Phases.Protocol
		}
		bodies[i], cuts[i] = h.Body, h.Truncated
		head, err := encodeHeader(h.Header)
		if err != nil {
			return nil, err
		}
		heads[i] = head
		traces[i], triggers[i] = text(r.trace), g.trigger
		if g.trigger != TriggerTest {
			healths[i] = string(v.Health)
		}
	}
	return []any{
		s.process, s.margin, b.slots, b.ids(),
		events, endpoints, tenants, numbers, tries, outcomes, classes, reasons, sents, statuses, elapsed,
		dns, connect, tls, firstByte, total, reused, protocols, heads, bodies, cuts,
		states, becauses, deferrals, interruptions, internals, delays, traces, triggers, healths,
	}, nil
}

func encodeHeader(h http.Header) (*string, error) {
	if len(h) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the answer's headers: %w", err)
	}
	s := string(text)
	return &s, nil
}

func ptr[T any](v T) *T { return &v }

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// micros is a duration for a column; nil where the phase did not happen.
func micros(d time.Duration) *int32 {
	if d <= 0 {
		return nil
	}
	return ptr(int32(min(d.Microseconds(), 1<<31-1)))
}
