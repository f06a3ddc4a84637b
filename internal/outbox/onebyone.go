package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sallyport-dev/sallyport/internal/postgres"
)

// allOrNone is how many rows must fail together, every one of them, to be taken for no row's fault: a bad deploy or a
// broken schema must not poison a backlog.
const allOrNone = 5

// passError is a failure of a pass that had claimed events. The pass has rolled back.
type passError struct {
	events []Claimed
	err    error
}

func (e *passError) Error() string { return e.err.Error() }
func (e *passError) Unwrap() error { return e.err }

// panicError is a panic of a router.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("a router panicked: %v\n%s", e.value, e.stack)
}

// failure is a row that failed alone, and why.
type failure struct {
	event Claimed
	err   error
}

// oneByOne tries the rows of a failed pass again, each in a transaction of its own: one bad row blocks no other. What is
// a row's own fault is counted on it. It says whether anything came of it; if not, the relay waits.
func (r *Relay) oneByOne(ctx context.Context, events []Claimed) bool {
	var failed []failure
	done := 0
	for _, e := range events {
		if ctx.Err() != nil {
			return true
		}
		_, err := r.handOver(ctx, claimOne(e))
		if err != nil && r.mend(ctx, err) {
			_, err = r.handOver(ctx, claimOne(e))
		}
		if err != nil {
			failed = append(failed, failure{e, err})
			continue
		}
		done++
	}
	if len(failed) > allOrNone && done == 0 {
		r.log.Error("every row of a failed pass fails; none is counted", "rows", len(failed), "error", failed[0].err)
		return false
	}
	moved := done > 0
	for _, f := range failed {
		if text, its := fault(f.err); its {
			moved = r.count(ctx, f, text) || moved
		} else {
			r.log.Error("an event can't be handed over, through no fault of its own", "event_id", f.event.ID, "error", f.err)
		}
	}
	return moved
}

// claimOne claims one row, if it is still to be handed over and nobody else has it.
func claimOne(e Claimed) func(context.Context, pgx.Tx) ([]Claimed, error) {
	return func(ctx context.Context, tx pgx.Tx) ([]Claimed, error) {
		rows, err := tx.Query(ctx, `
			select seq, id, tenant_id, type, subject, scopes, previous_scopes, accepted_at
			from gateway.events
			where id = $1 and tenant_id = $2 and fanned_out_at is null and poisoned_at is null
			for update skip locked`, e.ID, e.TenantID)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, scanClaimed)
	}
}

// fault says whether a failure is the row's own, and how to tell its owner, who reads it on the event: a panic, an error
// of a router, a value that the database refuses (SQLSTATE classes 22 and 23). Lost connections, full disks and a schema
// of another version are nobody's.
func fault(err error) (string, bool) {
	var panicked *panicError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &panicked):
		return "router panicked", true
	case missingPartition(err):
		return "", false
	case errors.As(err, &pg):
		return "the database refused a value (SQLSTATE " + pg.Code + ")", strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), postgres.Away(err):
		return "", false
	}
	return "router failed", true
}

// count notes a failure on its row, in a transaction after the one that failed, so that it survives a restart. The row
// waits, longer each time; at PoisonAfter it is set aside.
func (r *Relay) count(ctx context.Context, f failure, text string) bool {
	var failures int
	var poisoned bool
	err := r.db.QueryRow(ctx, `
		update gateway.events
		set relay_failures = relay_failures + 1, relay_error = $3,
			next_relay_at = statement_timestamp() + least($4::interval * power(2, least(relay_failures, 20)), $5::interval),
			poisoned_at = case when relay_failures + 1 >= $6 then statement_timestamp() end
		where id = $1 and tenant_id = $2 and fanned_out_at is null and poisoned_at is null
		returning relay_failures, poisoned_at is not null`,
		f.event.ID, f.event.TenantID, text, r.cfg.BackoffMin, r.cfg.BackoffMax, r.cfg.PoisonAfter).Scan(&failures, &poisoned)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return true // somebody else has handed it over
	case err != nil:
		r.log.Error("count an event's failure", "event_id", f.event.ID, "error", err)
		return false
	}
	r.log.Error("an event failed to be handed over", "event_id", f.event.ID, "failures", failures, "poisoned", poisoned, "error", f.err)
	return true
}

// missingPartition says whether no partition takes a row: 23514 without a constraint's name is how Postgres says so.
func missingPartition(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23514" && pg.ConstraintName == ""
}

// mend makes the partitions that a pass missed, and says whether the pass is worth another try right away. An event that
// lay unfanned for weeks, or was restored from a copy, belongs to a day whose partition is gone.
func (r *Relay) mend(ctx context.Context, err error) bool {
	var pass *passError
	if !errors.As(err, &pass) || !missingPartition(err) {
		return false
	}
	made := 0
	days := make(map[time.Time]bool)
	for _, e := range pass.events {
		days[millisecond(e.ID).Truncate(24*time.Hour)] = true
	}
	for day := range days {
		n, err := postgres.EnsurePartitions(ctx, r.db, day, 1)
		if err != nil {
			r.log.Error("make a missing partition", "error", err)
			return false
		}
		made += n
	}
	return made > 0
}
