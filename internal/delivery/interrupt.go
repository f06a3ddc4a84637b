package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// interruptTx ends the leases of a process, or where expired is given those that ended longer ago than that,
// each with an attempt of class interrupted: whether a byte of it was sent is unknown. It returns the endpoints.
func (s *store) interruptTx(ctx context.Context, tx pgx.Tx, process uuid.UUID, expired *time.Duration) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, `
		select distinct endpoint_id from gateway.leases
		where process_id = $1 and ($2::interval is null or ends_at < statement_timestamp() - $2)`, process, expired)
	if err != nil {
		return nil, fmt.Errorf("list leases to end: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("list leases to end: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	if _, err := tx.Exec(ctx, lock, ids); err != nil {
		return nil, fmt.Errorf("lock %d endpoints: %w", len(ids), err)
	}
	rows, err = tx.Query(ctx, `
		select l.event_id, l.endpoint_id, l.tenant_id, l.number, d.trigger, d.tries, d.deferrals, d.interruptions,
			statement_timestamp() - d.run_started_at, statement_timestamp() - l.started_at
		from gateway.leases l
		join gateway.deliveries d on d.event_id = l.event_id and d.endpoint_id = l.endpoint_id and d.tenant_id = l.tenant_id
		where l.process_id = $1 and ($2::interval is null or l.ends_at < statement_timestamp() - $2)`, process, expired)
	if err != nil {
		return nil, fmt.Errorf("read leases to end: %w", err)
	}
	results, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r result, err error) {
		g := new(grant)
		r = result{grant: g, sent: SentUnknown}
		err = row.Scan(&g.key.EventID, &g.key.EndpointID, &g.tenantID, &g.number, &g.trigger, &g.before.Tries,
			&g.before.Deferrals, &g.before.Interruptions, &g.before.RunAge, &r.elapsed)
		r.verdict = s.policy.TakenOver(g.before)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read leases to end: %w", err)
	}
	b := bundle{results: results}
	args, err := b.args(&store{process: process, margin: s.margin})
	if err != nil {
		return nil, err
	}
	ended, err := tx.Query(ctx, recordAndGrant, args...)
	if err != nil {
		return nil, fmt.Errorf("end %d leases: %w", len(results), err)
	}
	d := done{freed: make([]bool, len(results))}
	if err := d.read(ended); err != nil {
		return nil, fmt.Errorf("end %d leases: %w", len(results), err)
	}
	return ids, nil
}
