package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
)

// MaintenanceQueue is the River queue of periodic work; processes with the role relay or worker work it.
const MaintenanceQueue = "maintenance"

// SweepArgs is the periodic job that pokes the relays of all processes, in case a notification was lost where a
// poll can't help either.
type SweepArgs struct{}

// Kind is the job's name in River.
func (SweepArgs) Kind() string { return "events.relay_sweep" }

// InsertOpts puts the job into the queue of periodic work. A sweep that fails is not tried again: the next one comes.
func (SweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: MaintenanceQueue, MaxAttempts: 1}
}

// SweepWorker works SweepArgs. It notifies, since its process may hold no relay.
type SweepWorker struct {
	river.WorkerDefaults[SweepArgs]
	db *pgxpool.Pool
}

// NewSweepWorker returns the worker of the sweep.
func NewSweepWorker(db *pgxpool.Pool) *SweepWorker { return &SweepWorker{db: db} }

// Work sends one notification.
func (w *SweepWorker) Work(ctx context.Context, _ *river.Job[SweepArgs]) error {
	if _, err := w.db.Exec(ctx, `select pg_notify('gateway_events', '')`); err != nil {
		return fmt.Errorf("poke the relays: %w", err)
	}
	return nil
}
