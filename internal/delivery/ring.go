package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/sallyport-dev/sallyport/internal/batch"
)

// Queue is the River queue of deliveries.
const Queue = "deliver"

// Args name the delivery that a job is the alarm clock of.
type Args struct {
	EventID    uuid.UUID `json:"event_id"`
	EndpointID uuid.UUID `json:"endpoint_id"`
}

// Kind is the job's name in River.
func (Args) Kind() string { return "webhook.deliver" }

// Bounds of a snooze without a lease: it doubles from the first to the last, and is spread by up to as much
// again, or the rings of a backlog would come together.
const (
	snoozeFirst = 30 * time.Second
	snoozeLast  = 10 * time.Minute
)

// ring is a job that asked for a lease and waits for what comes of it.
type ring struct {
	answers chan answer
}

// answer is what a ring hears.
type answer struct {
	granted bool // the delivery got a lease, and verdict is what came of it
	taken   bool // but the lease was another's by then
	closing bool
	verdict Verdict
}

func (r *ring) answer(a answer) { r.answers <- a }

// ring asks for a lease for one delivery, or joins the attempt that is under way in this process.
func (d *Dispatcher) ring(ctx context.Context, key Key) (answer, error) {
	r := &ring{answers: make(chan answer, 1)}
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		return answer{closing: true}, nil
	}
	if d.rings[key] != nil || len(d.hand) >= d.cfg.Workers && d.hand[key] == nil {
		// The same job rings already, or no worker is free: nothing waits for one here.
		d.mu.Unlock()
		return answer{}, nil
	}
	d.rings[key] = r
	if d.hand[key] == nil {
		d.fills[key.EndpointID] = uuid.Nil
	}
	d.mu.Unlock()
	d.poke()
	select {
	case a := <-r.answers:
		return a, nil
	case <-ctx.Done():
		d.mu.Lock()
		if d.rings[key] == r {
			delete(d.rings, key)
		}
		d.mu.Unlock()
		return answer{}, ctx.Err()
	}
}

// Worker works webhook.deliver: it looks up what its delivery is up to, and POSTs only under a lease.
type Worker struct {
	river.WorkerDefaults[Args]
	dispatcher *Dispatcher
	lookups    *batch.Batcher[Key, condition]
	timeout    time.Duration
}

// NewWorker returns the worker. timeout bounds a job: longer than any attempt and its record take; 45 s. d is nil in
// a process without workers: its River client must know the kind all the same, for it may be the one that leads.
func NewWorker(db *pgxpool.Pool, d *Dispatcher, timeout time.Duration) *Worker {
	if timeout == 0 {
		timeout = 45 * time.Second
	}
	return &Worker{dispatcher: d, timeout: timeout, lookups: batch.New(batchResults, (&store{db: db}).conditions)}
}

// Timeout bounds a job.
func (w *Worker) Timeout(*river.Job[Args]) time.Duration { return w.timeout }

// NextRetry is when River rings again after an error: at the time that stands on the delivery. Where that can't be read,
// a ring in a while looks again. A delivery that is due by now rings at once: River would take a time that has passed for
// none, and wait by a policy of its own.
func (w *Worker) NextRetry(job *river.Job[Args]) time.Time {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := w.lookups.Do(ctx, Key{job.Args.EventID, job.Args.EndpointID})
	if err != nil {
		return time.Now().Add(snoozeFirst)
	}
	return time.Now().Add(max(c.wait, 100*time.Millisecond))
}

// condition is what a ring finds.
type condition struct {
	known    bool
	state    State
	wait     time.Duration // until it is due, or until its lease ends; at most 0: it may ask
	leased   bool
	room     bool // the endpoint has a lease free
	deleted  bool
	stopped  string // why the endpoint takes nothing: paused, disabled; empty: it does
	tenantID uuid.UUID
}

// Work rings.
func (w *Worker) Work(ctx context.Context, job *river.Job[Args]) error {
	if w.dispatcher == nil {
		return river.JobSnooze(snoozeFirst)
	}
	key := Key{job.Args.EventID, job.Args.EndpointID}
	c, err := w.lookups.Do(ctx, key)
	if err != nil {
		return w.later(ctx, fmt.Errorf("look up the delivery of a job: %w", err))
	}
	switch {
	case !c.known || !c.state.Open():
		return nil
	case c.leased && w.dispatcher.holds(key):
		// Handed over to this very process and not ended: hear of it here.
	case c.leased, c.wait > 0:
		return river.JobSnooze(max(c.wait, time.Second))
	case c.deleted, c.stopped != "":
		if err := w.dispatcher.store.setAside(ctx, key, c.tenantID); err != nil {
			return w.later(ctx, err)
		}
		return nil
	case !c.room:
		return river.JobSnooze(w.snooze(job.JobRow))
	}
	a, err := w.dispatcher.ring(ctx, key)
	switch {
	case err != nil:
		return err
	case a.closing:
		return river.JobSnooze(time.Second) // for another process, or this one's successor
	case !a.granted, a.taken:
		return river.JobSnooze(w.snooze(job.JobRow))
	}
	return a.verdict.forRiver()
}

// later turns an error of our own into a snooze: it spends no attempt of the job.
func (w *Worker) later(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.dispatcher.log.Error("a job can't ring", "error", err)
	return river.JobSnooze(snoozeFirst + rand.N(snoozeFirst))
}

// snooze doubles with each snooze that River counted on the job.
func (w *Worker) snooze(job *rivertype.JobRow) time.Duration {
	var meta struct {
		Snoozes int `json:"snoozes"`
	}
	if err := json.Unmarshal(job.Metadata, &meta); err != nil {
		meta.Snoozes = 0
	}
	d := doubling(snoozeFirst, snoozeLast/2, meta.Snoozes)
	return d + rand.N(d)
}

// forRiver is what a job returns for a verdict: River then shows the same state as the delivery.
func (v Verdict) forRiver() error {
	switch {
	case v.State == Succeeded, v.State == Held, v.State == Cancelled:
		return nil
	case v.State == Rejected:
		return river.JobCancel(errors.New(v.text()))
	case v.Spent:
		return errors.New(v.text())
	case v.State == Exhausted:
		return river.JobCancel(errors.New(v.text()))
	default:
		return river.JobSnooze(max(v.Delay, 0))
	}
}

func (v Verdict) text() string {
	if v.Reason == "" {
		return fmt.Sprintf("%s: %s", v.Outcome, v.Class)
	}
	return fmt.Sprintf("%s: %s (%s)", v.Outcome, v.Class, v.Reason)
}

// holds says whether this process has the delivery's lease.
func (d *Dispatcher) holds(key Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hand[key] != nil
}
