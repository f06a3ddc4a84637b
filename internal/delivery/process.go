package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ProcessConfig is what a process says of itself, and how it judges others. Zero durations are the defaults.
type ProcessConfig struct {
	ID        uuid.UUID // new at each start; also the id of the process's River client
	Version   string
	Roles     []string
	Heartbeat time.Duration    // 2 s
	DeadAfter time.Duration    // without a new beat, by the observer's own monotonic clock; 10 s
	Policy    Policy           // how interruptions are judged
	LastPass  func() time.Time // of this process's relay; nil where it has none
	// TakenOver is told the endpoints whose leases a take-over freed. It may be nil.
	TakenOver func(endpoints []uuid.UUID)
}

// Process is this process's heartbeat, and its eye on the others: what a dead one had in flight is taken over.
//
// A beat is a counter, never a time. A process is dead to an observer that saw no new value for DeadAfter on its
// own monotonic clock while all its own beats returned; so after an outage of the database, or a jump of a clock,
// nobody is judged early.
type Process struct {
	store *store
	cfg   ProcessConfig
	log   *slog.Logger
	seen  map[uuid.UUID]sighting
}

// sighting is when an observer first saw a process's present beat.
type sighting struct {
	beat int64
	at   time.Time // with its monotonic reading
}

// NewProcess returns the heartbeat of this process; db is the dispatcher's kind of pool.
func NewProcess(db *pgxpool.Pool, cfg ProcessConfig, log *slog.Logger) *Process {
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 2 * time.Second
	}
	if cfg.DeadAfter == 0 {
		cfg.DeadAfter = 10 * time.Second
	}
	return &Process{store: &store{db: db, process: cfg.ID, policy: cfg.Policy}, cfg: cfg, log: log, seen: make(map[uuid.UUID]sighting)}
}

// Run beats until ctx ends, then says that the process has ended.
func (p *Process) Run(ctx context.Context) error {
	// Looking is cheaper than beating, and how often it is done adds to how long the dead stay unnoticed.
	tick := time.NewTicker(p.cfg.Heartbeat / looksPerBeat)
	defer tick.Stop()
	for n := 0; ; n++ {
		if err := p.turn(ctx, n%looksPerBeat == 0); err != nil && ctx.Err() == nil {
			// Nobody can be judged by an observer that stood still itself; it beats first, and then looks.
			clear(p.seen)
			n = -1
			p.log.Error("heartbeat failed", "error", err)
		}
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			if _, err := p.store.db.Exec(end, `update gateway.processes set ended_at = clock_timestamp() where id = $1`, p.cfg.ID); err != nil {
				return fmt.Errorf("say that the process ends: %w", err)
			}
			return nil
		case <-tick.C:
		}
	}
}

// looksPerBeat is how often a process looks at the others' beats while it makes one of its own.
const looksPerBeat = 4

// turn beats if it is time to, and looks at the others.
func (p *Process) turn(ctx context.Context, beat bool) error {
	dead, err := p.beatAndLook(ctx, beat)
	if err != nil {
		return err
	}
	for _, id := range dead {
		endpoints, err := p.takeOver(ctx, id)
		if err != nil {
			return err
		}
		delete(p.seen, id)
		if p.cfg.TakenOver != nil && len(endpoints) > 0 {
			p.cfg.TakenOver(endpoints)
		}
	}
	return nil
}

// beatAndLook must be quick: one that took long says nothing about the others.
func (p *Process) beatAndLook(ctx context.Context, beat bool) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.DeadAfter/2)
	defer cancel()
	if beat {
		if err := p.beat(ctx); err != nil {
			return nil, err
		}
	}
	return p.look(ctx)
}

// beat raises the counter, and measures how far the clocks are apart on the way.
func (p *Process) beat(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	var lastPass *time.Time
	if p.cfg.LastPass != nil {
		if t := p.cfg.LastPass(); !t.IsZero() {
			lastPass = &t
		}
	}
	var theirs time.Time
	sent := time.Now()
	err = p.store.db.QueryRow(ctx, `
		insert into gateway.processes as p (id, host, pid, version, roles, beat, relay_pass_at)
		values ($1, $2, $3, $4, $5, 1, $6)
		on conflict (id) do update
		set beat = p.beat + 1, beat_at = clock_timestamp(), relay_pass_at = coalesce(excluded.relay_pass_at, p.relay_pass_at), ended_at = null
		returning clock_timestamp()`, p.cfg.ID, host, os.Getpid(), p.cfg.Version, p.cfg.Roles, lastPass).Scan(&theirs)
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	trip := time.Since(sent)
	offset := theirs.Sub(sent.Add(trip / 2)).Milliseconds()
	_, err = p.store.db.Exec(ctx, `update gateway.processes set clock_offset_ms = $2 where id = $1 and clock_offset_ms is distinct from $2`, p.cfg.ID, offset)
	if err != nil {
		return fmt.Errorf("note the clock's offset: %w", err)
	}
	return nil
}

// look reads the others' counters and returns who is dead.
func (p *Process) look(ctx context.Context) ([]uuid.UUID, error) {
	rows, err := p.store.db.Query(ctx, `select id, beat from gateway.processes where ended_at is null and id <> $1`, p.cfg.ID)
	if err != nil {
		return nil, fmt.Errorf("look at the other processes: %w", err)
	}
	now := time.Now()
	here := make(map[uuid.UUID]bool)
	var dead []uuid.UUID
	var id uuid.UUID
	var beat int64
	_, err = pgx.ForEachRow(rows, []any{&id, &beat}, func() error {
		here[id] = true
		switch s, known := p.seen[id]; {
		case !known || s.beat != beat:
			p.seen[id] = sighting{beat, now}
		case now.Sub(s.at) > p.cfg.DeadAfter:
			dead = append(dead, id)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at the other processes: %w", err)
	}
	for id := range p.seen {
		if !here[id] {
			delete(p.seen, id)
		}
	}
	return dead, nil
}

// takeOverTime bounds a take-over: it may be of as many leases as a process has workers.
const takeOverTime = 30 * time.Second

// errNotDead says that somebody else has taken a process over, or that it beat again.
var errNotDead = errors.New("not dead")

// takeOver ends a dead process in one transaction: its leases, each with an attempt of class interrupted, its
// deliveries go back in line, and its running jobs are free. It returns the endpoints that have leases free now.
func (p *Process) takeOver(ctx context.Context, dead uuid.UUID) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, takeOverTime)
	defer cancel()
	var endpoints []uuid.UUID
	beat := p.seen[dead].beat
	err := pgx.BeginFunc(ctx, p.store.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			update gateway.processes set ended_at = clock_timestamp()
			where id = (select id from gateway.processes where id = $1 and beat = $2 and ended_at is null for update skip locked)`, dead, beat)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errNotDead
		}
		if _, err := tx.Exec(ctx, freeJobsOfProcess, dead.String()); err != nil {
			return err
		}
		endpoints, err = p.store.interruptTx(ctx, tx, dead, nil)
		return err
	})
	switch {
	case errors.Is(err, errNotDead):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("take over process %s: %w", dead, err)
	}
	p.log.Warn("took over a dead process", "process_id", dead, "endpoints", len(endpoints))
	return endpoints, nil
}
