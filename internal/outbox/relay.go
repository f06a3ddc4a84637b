package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// RelayConfig bounds a relay. The zero value is the default of each.
type RelayConfig struct {
	BatchEvents     int           // events a pass, at most; 200
	BatchDeliveries int           // rows a pass makes, at most, but its first event is always taken whole; 2,000
	Poll            time.Duration // how long the relay trusts that it would have been woken; 2 s
	PoisonAfter     int           // failures of its own after which an event is set aside; 5
	BackoffMin      time.Duration // after the first of a row of failing passes; 2 s
	BackoffMax      time.Duration // it doubles up to this; 1 min
}

func (c RelayConfig) withDefaults() RelayConfig {
	if c.BatchEvents == 0 {
		c.BatchEvents = 200
	}
	if c.BatchDeliveries == 0 {
		c.BatchDeliveries = 2000
	}
	if c.PoisonAfter == 0 {
		c.PoisonAfter = 5
	}
	if c.Poll == 0 {
		c.Poll = 2 * time.Second
	}
	if c.BackoffMin == 0 {
		c.BackoffMin = 2 * time.Second
	}
	if c.BackoffMax == 0 {
		c.BackoffMax = time.Minute
	}
	return c
}

// Relay runs passes for as long as there is something to hand over, in every process with that role.
type Relay struct {
	db      *pgxpool.Pool
	cfg     RelayConfig
	routers []Router
	log     *slog.Logger
	wake    chan struct{}
	lastOK  atomic.Int64 // Unix nanoseconds of the end of the last good pass
}

// NewRelay returns a relay that hands events to the routers, in their order. It does nothing before Run.
func NewRelay(db *pgxpool.Pool, cfg RelayConfig, log *slog.Logger, routers ...Router) *Relay {
	return &Relay{db: db, cfg: cfg.withDefaults(), routers: routers, log: log, wake: make(chan struct{}, 1)}
}

// Poke wakes the relay. It never blocks, and pokes that come together are one.
func (r *Relay) Poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// LastPass is when the last pass ended well, by this process's clock; zero before the first.
func (r *Relay) LastPass() time.Time {
	if n := r.lastOK.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Run passes until ctx ends: at once when poked or when a pass left something behind, else at each poll. A failing pass
// has rolled back whole; its rows are then tried one by one. If nothing comes of that, the relay waits, and the wait
// doubles.
func (r *Relay) Run(ctx context.Context) error {
	backoff := r.cfg.BackoffMin
	for {
		started := time.Now()
		p, err := r.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && r.mend(ctx, err):
			continue
		case err != nil:
			r.log.Error("relay pass failed", "error", err)
			var claimed *passError
			if errors.As(err, &claimed) && r.oneByOne(ctx, claimed.events) {
				backoff = r.cfg.BackoffMin
				continue
			}
			r.log.Error("the relay waits", "again_in_ms", backoff.Milliseconds())
			if !pause(ctx, backoff) {
				return nil
			}
			backoff = min(2*backoff, r.cfg.BackoffMax)
			continue
		}
		backoff = r.cfg.BackoffMin
		r.lastOK.Store(time.Now().UnixNano())
		if p.events > 0 {
			r.log.Debug("relay pass", "events", p.events, "deliveries", p.deliveries, "ms", time.Since(started).Milliseconds())
		}
		if p.more {
			continue
		}
		timer := time.NewTimer(r.cfg.Poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// millisecond is the time that a UUIDv7 carries.
func millisecond(id uuid.UUID) time.Time {
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC()
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
