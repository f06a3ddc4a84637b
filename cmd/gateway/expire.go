package main

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/outbox"
)

// expireKeysArgs is the hourly job that deletes expired idempotency keys.
type expireKeysArgs struct{}

// Kind is the job's name in River.
func (expireKeysArgs) Kind() string { return "idempotency.expire" }

// InsertOpts puts the job into the queue of periodic work.
func (expireKeysArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: outbox.MaintenanceQueue}
}

// expireKeys works expireKeysArgs.
type expireKeys struct {
	river.WorkerDefaults[expireKeysArgs]
	keys *idempotency.Keys
}

// Work deletes.
func (w *expireKeys) Work(ctx context.Context, _ *river.Job[expireKeysArgs]) error {
	_, err := w.keys.Expire(ctx)
	return err
}
