package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Bounds of one batch: a statement over more takes longer than its share, and its grants hold their events in
// memory at once.
const (
	batchResults   = 128
	batchEndpoints = 128
	batchGrants    = 128
)

// linger is how long a batch waits for company, once the one before it had some: a few results more in one
// commit save more than the wait costs. A lone result never waits.
const linger = 3 * time.Millisecond

// DispatcherConfig bounds a dispatcher. The zero value is the default of each.
type DispatcherConfig struct {
	Process uuid.UUID     // this process's id, new at each start
	Workers int           // attempts in flight in this process, at most; 1,000
	Margin  time.Duration // a lease outlives its attempt's time limit by this; 10 s
	Grace   time.Duration // how long attempts may go on at a shutdown before they are cut; 30 s
	Cut     time.Duration // how long the cut ones may take to be recorded; 2 s
	// LookAgain is how often every line is looked at, in case nobody said that it should be; 1 min.
	LookAgain time.Duration
}

func (c DispatcherConfig) withDefaults() DispatcherConfig {
	if c.Workers == 0 {
		c.Workers = 1000
	}
	if c.Margin == 0 {
		c.Margin = 10 * time.Second
	}
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.Cut == 0 {
		c.Cut = 2 * time.Second
	}
	if c.LookAgain == 0 {
		c.LookAgain = time.Minute
	}
	return c
}

// Dispatcher grants leases to what is in line, lets the attempts run, and records what came of them. There is one
// in each process with workers.
type Dispatcher struct {
	cfg   DispatcherConfig
	store *store
	run   *Runner
	log   *slog.Logger
	wake  chan struct{}

	mu      sync.Mutex
	results []result
	fills   map[uuid.UUID]uuid.UUID
	rings   map[Key]*ring
	hand    map[Key]*grant // granted to this process and not yet recorded
	alone   []uuid.UUID    // endpoints to look at one by one: a batch with them failed for what it held
	lost    bool           // a batch failed, and what it granted may have been committed
	closing bool
}

// NewDispatcher returns a dispatcher. db is a pool of its own (see store); it does nothing before Run.
func NewDispatcher(db *pgxpool.Pool, runner *Runner, cfg DispatcherConfig, log *slog.Logger) *Dispatcher {
	cfg = cfg.withDefaults()
	return &Dispatcher{
		cfg: cfg, run: runner, log: log,
		store: &store{db: db, process: cfg.Process, margin: cfg.Margin, disable: runner.disableTx},
		wake:  make(chan struct{}, 1),
		fills: make(map[uuid.UUID]uuid.UUID), rings: make(map[Key]*ring), hand: make(map[Key]*grant),
	}
}

// Look tells the dispatcher that these endpoints may have something due and a lease free. It never blocks.
func (d *Dispatcher) Look(endpoints []uuid.UUID) {
	d.mu.Lock()
	for _, id := range endpoints {
		d.fills[id] = uuid.Nil
	}
	d.mu.Unlock()
	d.poke()
}

// InHand is how many leases this process holds.
func (d *Dispatcher) InHand() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.hand)
}

func (d *Dispatcher) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run dispatches until ctx ends. Then it grants no more, lets the attempts in flight end for Grace, cuts the
// rest, records them, and returns.
func (d *Dispatcher) Run(ctx context.Context) error {
	attempts, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var wg sync.WaitGroup
	if err := d.lookAtAll(ctx); err != nil && ctx.Err() == nil {
		d.log.Error("look for what is due at the start", "error", err)
	}
	company := 0
	again := time.NewTicker(d.cfg.LookAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-again.C:
			if err := d.lookAtAll(ctx); err != nil && ctx.Err() == nil {
				d.log.Error("look for what is due", "error", err)
			}
		case <-d.wake:
			if company > 2 {
				pause(ctx, linger)
			}
			company = d.turn(ctx, attempts, &wg)
		}
	}
	return d.drain(ctx, cut, &wg)
}

// turn works off one batch and says how many results were in it.
func (d *Dispatcher) turn(ctx, attempts context.Context, wg *sync.WaitGroup) int {
	b, more := d.take()
	if len(b.results) == 0 && len(b.fills) == 0 {
		return 0
	}
	if more {
		defer d.poke()
	}
	out, err := d.commit(ctx, &b)
	if err != nil {
		d.failed(ctx, b, err)
		return 0
	}
	d.settle(&b, &out)
	for _, g := range out.grants {
		wg.Add(1)
		go func() {
			defer wg.Done()
			d.report(d.run.attempt(attempts, g))
		}()
	}
	d.mend(ctx)
	return len(b.results)
}

// commit ends a batch that has begun, whatever becomes of ctx, but in bounded time: a server that stands still
// enforces no timeout of its own.
func (d *Dispatcher) commit(ctx context.Context, b *bundle) (done, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	return d.store.recordAndGrant(ctx, b)
}

// take removes the next batch from what waits.
func (d *Dispatcher) take() (b bundle, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.results), batchResults)
	b.results = append([]result(nil), d.results[:n]...)
	d.results = append(d.results[:0], d.results[n:]...)
	b.fills = make(map[uuid.UUID]uuid.UUID)
	// The results of this batch free their workers with it.
	b.slots = max(min(d.cfg.Workers-len(d.hand)+n, batchGrants), 0)
	if d.closing {
		b.slots = 0
	}
	if b.slots > 0 && n == 0 && len(d.alone) > 0 {
		b.fills[d.alone[0]] = uuid.Nil
		d.alone = d.alone[1:]
	} else if b.slots > 0 {
		for id, tenant := range d.fills {
			if len(b.fills) == batchEndpoints {
				break
			}
			b.fills[id] = tenant
			delete(d.fills, id)
		}
	}
	return b, len(d.results) > 0 || len(d.fills)+len(d.alone) > 0 && b.slots > 0
}

// settle takes over what a batch did: what is recorded is no longer in hand, what was granted is, and whoever
// rang for one of them hears of it.
func (d *Dispatcher) settle(b *bundle, out *done) {
	var late []result
	d.mu.Lock()
	for i := range b.results {
		r := &b.results[i]
		delete(d.hand, r.grant.key)
		if !out.freed[i] {
			late = append(late, *r)
		}
		if ring := d.rings[r.grant.key]; ring != nil {
			delete(d.rings, r.grant.key)
			ring.answer(answer{granted: true, taken: !out.freed[i], verdict: r.verdict})
		}
	}
	granted := make(map[Key]bool, len(out.grants))
	for _, g := range out.grants {
		d.hand[g.key] = g
		granted[g.key] = true
	}
	for id, r := range d.rings {
		if _, asked := b.fills[id.EndpointID]; asked && !granted[id] && d.hand[id] == nil {
			delete(d.rings, id)
			r.answer(answer{})
		}
	}
	if len(out.grants) == b.slots {
		// The slots ran out, not the line: look again when there are some.
		for _, id := range b.ids() {
			d.fills[id] = uuid.Nil
		}
		if b.slots == batchGrants {
			d.poke()
		}
	}
	d.mu.Unlock()
	for i := range late {
		d.late(&late[i])
	}
}

// report hands in a result. It is recorded under the dispatcher's context, never the attempt's or the job's.
func (d *Dispatcher) report(r result) {
	d.mu.Lock()
	d.results = append(d.results, r)
	d.mu.Unlock()
	d.poke()
}

// failed puts a batch back that the database did not take. One bad row must not hold up the others: a batch that fails
// for what it holds is tried one by one, results and endpoints; a result that fails alone is recorded bare.
func (d *Dispatcher) failed(ctx context.Context, b bundle, err error) {
	var pg *pgconn.PgError
	content := errors.As(err, &pg) && (pg.Code[:2] == "22" || pg.Code[:2] == "23")
	d.log.Error("record and grant failed", "error", err, "results", len(b.results), "content", content)
	d.mu.Lock()
	d.lost = true
	for id, tenant := range b.fills {
		switch {
		case !content:
			d.fills[id] = tenant
		case len(b.fills) > 1 || len(b.results) > 0:
			d.alone = append(d.alone, id)
		default: // alone, and it fails: its rows contradict each other; the next look at all lines tries again
			d.log.Error("an endpoint can't be granted anything", "error", err, "endpoint_id", id)
		}
	}
	if !content {
		d.results = append(b.results, d.results...)
	}
	d.mu.Unlock()
	if content {
		d.oneByOne(ctx, b.results)
		d.poke()
		return
	}
	again := time.NewTimer(recordAgain)
	defer again.Stop()
	select {
	case <-ctx.Done():
	case <-again.C:
	}
	d.poke()
}

// giveUp is how often a result is tried that the database refuses for what it holds.
const giveUp = 3

// commitTime bounds one batch: many times what it takes, and less than a lease's margin.
const commitTime = 8 * time.Second

// recordAgain is how long a failed batch waits. Results keep until then: an attempt that was made is recorded.
const recordAgain = 200 * time.Millisecond

// oneByOne records each result in a transaction of its own, without granting anything.
func (d *Dispatcher) oneByOne(ctx context.Context, results []result) {
	for i := range results {
		one := bundle{results: results[i : i+1]}
		out, err := d.commit(ctx, &one)
		if err == nil {
			d.settle(&one, &out)
			continue
		}
		r := results[i]
		r.stale++
		// What the receiver sent is what may be bad about it.
		r.http.Header, r.http.Body, r.http.Truncated = nil, nil, true
		d.mu.Lock()
		if r.stale < giveUp {
			d.results = append(d.results, r)
		} else {
			delete(d.hand, r.grant.key)
		}
		d.mu.Unlock()
		if r.stale == giveUp {
			d.log.Error("a result can't be recorded; its lease will end by itself", "error", err,
				"event_id", r.grant.key.EventID, "endpoint_id", r.grant.key.EndpointID)
		}
	}
}

// mend frees leases that a failed batch may have granted without anybody here having heard of it: they are this
// process's, and not in hand. Nothing was sent for them.
func (d *Dispatcher) mend(ctx context.Context) {
	d.mu.Lock()
	if !d.lost {
		d.mu.Unlock()
		return
	}
	keep := make([]Key, 0, len(d.hand))
	for k := range d.hand {
		keep = append(keep, k)
	}
	d.lost = false
	d.mu.Unlock()
	endpoints, err := d.store.giveBack(context.WithoutCancel(ctx), keep)
	if err != nil {
		d.log.Error("give back leases of a failed batch", "error", err)
		d.mu.Lock()
		d.lost = true
		d.mu.Unlock()
		return
	}
	d.Look(endpoints)
}

// lookAtAll looks at every endpoint that has something due.
func (d *Dispatcher) lookAtAll(ctx context.Context) error {
	ids, err := d.store.endpointsInLine(ctx)
	if err != nil {
		return err
	}
	d.Look(ids)
	return nil
}

// drain ends the dispatcher: attempts end, or are cut after the grace, and everything is recorded.
func (d *Dispatcher) drain(ctx context.Context, cut context.CancelFunc, wg *sync.WaitGroup) error {
	d.mu.Lock()
	d.closing = true
	for key, r := range d.rings {
		if d.hand[key] == nil {
			delete(d.rings, key)
			r.answer(answer{closing: true})
		}
	}
	d.mu.Unlock()
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	grace := time.NewTimer(d.cfg.Grace)
	defer grace.Stop()
	var last <-chan time.Time
	for {
		for {
			b, _ := d.take()
			b.fills = nil
			if len(b.results) == 0 {
				break
			}
			out, err := d.commit(ctx, &b)
			if err != nil {
				d.failed(context.WithoutCancel(ctx), b, err)
				if last != nil {
					break
				}
				continue
			}
			d.settle(&b, &out)
		}
		if d.InHand() == 0 {
			<-ended
			return nil
		}
		select {
		case <-d.wake:
		case <-grace.C:
			cut()
			timer := time.NewTimer(d.cfg.Cut)
			defer timer.Stop()
			last = timer.C
		case <-last:
			return fmt.Errorf("%d attempts could not be recorded before the end; they will be taken over", d.InHand())
		}
	}
}

// pause waits, and says whether the wait was whole.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
