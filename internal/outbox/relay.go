package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/postgres"
)

// RelayConfig bounds a relay. The zero value is the default of each.
type RelayConfig struct {
	BatchEvents     int           // events a pass, at most; 200
	BatchDeliveries int           // rows a pass makes, at most, but its first event is always taken whole; 2,000
	Poll            time.Duration // how long the relay trusts that it would have been woken; 2 s
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

// Run passes until ctx ends: at once when poked or when a pass left something behind, else at each poll. A
// failing pass has rolled back whole; the next one waits, and the wait doubles.
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
			r.log.Error("relay pass failed", "error", err, "again_in_ms", backoff.Milliseconds())
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

// mend makes the partitions that a pass missed, and says whether the pass is worth another try right away. An
// event that lay unfanned for weeks, or was restored from a copy, belongs to a day whose partition is gone.
func (r *Relay) mend(ctx context.Context, err error) bool {
	var write *writeError
	var pg *pgconn.PgError
	if !errors.As(err, &write) || !errors.As(err, &pg) || pg.Code != "23514" || pg.ConstraintName != "" {
		return false // 23514 without a constraint's name is how Postgres says that no partition takes the row
	}
	made := 0
	for _, e := range write.events {
		n, err := postgres.EnsurePartitions(ctx, r.db, millisecond(e.ID), 1)
		if err != nil {
			r.log.Error("make a missing partition", "error", err)
			return false
		}
		made += n
	}
	return made > 0
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
