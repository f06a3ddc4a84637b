package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/postgres"
)

// reconciled bounds one run of the reconciler: it repairs what should not happen, and must not become a load.
const reconciled = 1000

// ReconcileArgs is the periodic job of the reconciler, each minute.
type ReconcileArgs struct{}

// Kind is the job's name in River.
func (ReconcileArgs) Kind() string { return "deliveries.reconcile" }

// InsertOpts puts the job into the queue of periodic work.
func (ReconcileArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: outbox.MaintenanceQueue, MaxAttempts: 1}
}

// Reconciler is the last net: it repairs what a lost job, a lost lease or a lost count left behind. On a healthy
// gateway it finds nothing.
type Reconciler struct {
	river.WorkerDefaults[ReconcileArgs]
	store   *store
	overdue time.Duration
	look    func([]uuid.UUID)
	log     *slog.Logger
}

// NewReconciler returns the worker. overdue is how late a delivery without a job, or a lease past its end, must
// be (2 min); look is told the endpoints whose leases were freed, and may be nil.
func NewReconciler(db *pgxpool.Pool, policy Policy, overdue time.Duration, look func([]uuid.UUID), log *slog.Logger) *Reconciler {
	if overdue == 0 {
		overdue = 2 * time.Minute
	}
	if look == nil {
		look = func([]uuid.UUID) {}
	}
	return &Reconciler{store: &store{db: db, policy: policy}, overdue: overdue, look: look, log: log}
}

// Work repairs.
func (r *Reconciler) Work(ctx context.Context, _ *river.Job[ReconcileArgs]) error {
	client, err := river.ClientFromContextSafely[pgx.Tx](ctx)
	if err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	leases, err := r.endLeases(ctx)
	if err != nil {
		return err
	}
	jobs, err := r.replaceJobs(ctx, client)
	if err != nil {
		return err
	}
	counts, err := r.recount(ctx)
	if err != nil {
		return err
	}
	if err := r.forget(ctx); err != nil {
		return err
	}
	if len(leases)+jobs+len(counts) > 0 {
		r.log.Warn("reconciled", "endpoints_with_ended_leases", len(leases), "jobs_replaced", jobs, "endpoints_recounted", len(counts))
		r.look(append(leases, counts...))
	}
	return nil
}

// endLeases ends the leases that are past their end, whatever their process is up to.
func (r *Reconciler) endLeases(ctx context.Context) ([]uuid.UUID, error) {
	rows, err := r.store.db.Query(ctx, `
		select distinct process_id from gateway.leases where ends_at < statement_timestamp() - $1::interval`, r.overdue)
	if err != nil {
		return nil, fmt.Errorf("list leases past their end: %w", err)
	}
	processes, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("list leases past their end: %w", err)
	}
	var freed []uuid.UUID
	for _, id := range processes {
		err := pgx.BeginFunc(ctx, r.store.db, func(tx pgx.Tx) error {
			endpoints, err := r.store.interruptTx(ctx, tx, id, &r.overdue)
			freed = append(freed, endpoints...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("end the leases of process %s: %w", id, err)
		}
	}
	return freed, nil
}

// replaceJobs gives a job to each delivery that is overdue and has none that will ring: it was lost, deleted or
// discarded.
func (r *Reconciler) replaceJobs(ctx context.Context, client *river.Client[pgx.Tx]) (int, error) {
	n := 0
	err := pgx.BeginFunc(ctx, r.store.db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			select d.event_id, d.endpoint_id, d.tenant_id, d.tries, e.schedule,
				exists (select 1 from river.river_job j where j.id = d.job_id and j.state = 'discarded')
			from gateway.line l
			join gateway.deliveries d on d.event_id = l.event_id and d.endpoint_id = l.endpoint_id and d.tenant_id = l.tenant_id
			join gateway.endpoints e on e.id = d.endpoint_id and e.tenant_id = d.tenant_id
			where l.due_at < statement_timestamp() - $1::interval and d.state in ('pending', 'retrying')
			  and not exists (select 1 from river.river_job j where j.id = d.job_id and j.finalized_at is null)
			order by l.due_at limit $2
			for update of d skip locked`, r.overdue, reconciled)
		if err != nil {
			return err
		}
		var events, endpoints, tenants []uuid.UUID
		var params []river.InsertManyParams
		var event, endpoint, tenant uuid.UUID
		var tries int
		var schedule []int32
		var discarded bool
		var discards []bool
		_, err = pgx.ForEachRow(rows, []any{&event, &endpoint, &tenant, &tries, &schedule, &discarded}, func() error {
			discards = append(discards, discarded)
			events, endpoints, tenants = append(events, event), append(endpoints, endpoint), append(tenants, tenant)
			left := r.store.policy.Tries(seconds(schedule)) - tries
			params = append(params, river.InsertManyParams{Args: Args{EventID: event, EndpointID: endpoint},
				InsertOpts: &river.InsertOpts{MaxAttempts: max(left, 1), Queue: Queue, Priority: 1}})
			return nil
		})
		if err != nil || len(params) == 0 {
			return err
		}
		made, err := client.InsertManyTx(ctx, tx, params)
		if err != nil {
			return err
		}
		ids := make([]int64, len(made))
		for i := range made {
			ids[i] = made[i].Job.ID
		}
		n = len(ids)
		// What River gave up on is an error of our own, and has its row: nothing was sent for it.
		_, err = tx.Exec(ctx, `
			with n as (
				select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bool[]) n(event_id, endpoint_id, tenant_id, job_id, discarded)
			),
			moved as (
				update gateway.deliveries d
				set job_id = n.job_id,
					attempts = d.attempts + n.discarded::int,
					last_class = case when n.discarded then 'internal' else d.last_class end,
					internal_since = case when n.discarded then coalesce(d.internal_since, statement_timestamp()) else d.internal_since end
				from n
				where d.event_id = n.event_id and d.endpoint_id = n.endpoint_id and d.tenant_id = n.tenant_id
				returning d.event_id, d.endpoint_id, d.tenant_id, d.attempts, d.trigger, n.discarded
			)
			insert into gateway.attempts (event_id, endpoint_id, number, id, tenant_id, process_id, trigger, outcome, class, reason, sent, started_at)
			select event_id, endpoint_id, attempts, gateway.uuid_v7_beside(event_id), tenant_id, $6, trigger, 'internal', 'internal', 'job_discarded', 'no', statement_timestamp()
			from moved where discarded`, events, endpoints, tenants, ids, discards, uuid.Nil)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("replace lost jobs: %w", err)
	}
	return n, nil
}

// recount sets the leases in use of each endpoint to what is there.
func (r *Reconciler) recount(ctx context.Context) ([]uuid.UUID, error) {
	rows, err := r.store.db.Query(ctx, `
		select s.endpoint_id from gateway.endpoint_state s
		left join (select endpoint_id, count(*) as n from gateway.leases group by endpoint_id) l using (endpoint_id)
		where s.in_flight <> coalesce(l.n, 0) limit $1`, reconciled)
	if err != nil {
		return nil, fmt.Errorf("compare the leases in use: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("compare the leases in use: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var wrong []uuid.UUID
	err = pgx.BeginFunc(ctx, r.store.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lock, ids); err != nil {
			return err
		}
		// Compared again under the lock: a batch may have been under way.
		rows, err := tx.Query(ctx, `
			update gateway.endpoint_state s set in_flight = n.n
			from (select e.id, (select count(*) from gateway.leases l where l.endpoint_id = e.id) as n from unnest($1::uuid[]) e(id)) n
			where s.endpoint_id = n.id and s.in_flight <> n.n
			returning s.endpoint_id`, ids)
		if err != nil {
			return err
		}
		wrong, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("recount the leases in use: %w", err)
	}
	return wrong, nil
}

// forget deletes processes that ended more than a day ago.
func (r *Reconciler) forget(ctx context.Context) error {
	if _, err := r.store.db.Exec(ctx, `delete from gateway.processes where ended_at < statement_timestamp() - interval '1 day'`); err != nil {
		return fmt.Errorf("forget processes that have ended: %w", err)
	}
	return nil
}

// seconds reads an endpoint's schedule.
func seconds(list []int32) []time.Duration {
	if len(list) == 0 {
		return nil
	}
	out := make([]time.Duration, len(list))
	for i, s := range list {
		out[i] = time.Duration(s) * time.Second
	}
	return out
}

// PartitionsArgs is the hourly job that makes the partitions of the days to come.
type PartitionsArgs struct{}

// Kind is the job's name in River.
func (PartitionsArgs) Kind() string { return "deliveries.partitions" }

// InsertOpts puts the job into the queue of periodic work.
func (PartitionsArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: outbox.MaintenanceQueue}
}

// partitionsAhead is how many days have partitions: yesterday, for what is fanned out after midnight, today, and
// a week.
const partitionsAhead = 9

// PartitionsWorker works PartitionsArgs.
type PartitionsWorker struct {
	river.WorkerDefaults[PartitionsArgs]
	db *pgxpool.Pool
}

// NewPartitionsWorker returns the worker.
func NewPartitionsWorker(db *pgxpool.Pool) *PartitionsWorker { return &PartitionsWorker{db: db} }

// Work makes what is missing.
func (w *PartitionsWorker) Work(ctx context.Context, _ *river.Job[PartitionsArgs]) error {
	return EnsurePartitions(ctx, w.db)
}

// EnsurePartitions makes the partitions of the days to come; the gateway does so at its start too.
func EnsurePartitions(ctx context.Context, db *pgxpool.Pool) error {
	_, err := postgres.EnsurePartitions(ctx, db, time.Now().Add(-24*time.Hour), partitionsAhead)
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("make partitions: %w", err)
	}
	return err
}
