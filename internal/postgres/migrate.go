package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/sallyport-dev/sallyport/migrations"
)

const (
	versionTable = "gateway.schema_versions"
	riverSchema  = "river"

	// migrationLock is the key of the advisory lock under which schemas change: "sallypor" in ASCII.
	migrationLock     = 0x73616c6c79706f72
	migrationLockPoll = 100 * time.Millisecond
)

// Migration is one step of a schema.
type Migration struct {
	Schema  string // "gateway", or "river" for the job queue's own
	Version int64
	Name    string
	Applied bool
}

// ErrNothingApplied says that there is no migration to undo.
var ErrNothingApplied = errors.New("no migration has been applied")

// Migrate brings our schema and then River's to the version of this binary. Nothing happens when they are there, or
// beyond. Many processes may call it at once: one works, the others wait for it, until their context ends. It needs
// a direct connection, not one through PgBouncer in transaction mode.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return underLock(ctx, pool, func(pool *pgxpool.Pool) error {
		ours, done, err := gooseProvider(pool)
		if err != nil {
			return err
		}
		defer done()
		if _, err := ours.Up(ctx); err != nil {
			return fmt.Errorf("migrate the schema gateway: %w", err)
		}
		rivers, err := riverMigrator(pool)
		if err != nil {
			return err
		}
		// Not in one transaction: River's step 6 uses an enum's value that step 4 adds.
		if _, err := rivers.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return fmt.Errorf("migrate the schema river: %w", err)
		}
		return nil
	})
}

// Down undoes the newest of our migrations and says which. With the first one everything goes, River's schema
// included, since its jobs are about deliveries that are no more. It deletes data.
func Down(ctx context.Context, pool *pgxpool.Pool) (Migration, error) {
	var undone Migration
	err := underLock(ctx, pool, func(pool *pgxpool.Pool) error {
		ours, done, err := gooseProvider(pool)
		if err != nil {
			return err
		}
		defer done()
		result, err := ours.Down(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return ErrNothingApplied
		}
		if err != nil {
			return fmt.Errorf("undo the newest migration: %w", err)
		}
		undone = Migration{Schema: "gateway", Version: result.Source.Version, Name: result.Source.Path}
		version, err := ours.GetDBVersion(ctx)
		if err != nil {
			return fmt.Errorf("read the schema's version: %w", err)
		}
		if version > 0 {
			return nil
		}
		rivers, err := riverMigrator(pool)
		if err != nil {
			return err
		}
		if _, err := rivers.Migrate(ctx, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: -1}); err != nil {
			return fmt.Errorf("undo River's migrations: %w", err)
		}
		return nil
	})
	return undone, err
}

// Status lists the migrations that this binary knows, ours and then River's, in their order. It changes nothing.
func Status(ctx context.Context, pool *pgxpool.Pool) ([]Migration, error) {
	ours, done, err := gooseProvider(pool)
	if err != nil {
		return nil, err
	}
	defer done()
	applied, err := appliedVersions(ctx, pool)
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, source := range ours.ListSources() {
		list = append(list, Migration{"gateway", source.Version, source.Path, applied[source.Version]})
	}
	applied, err = appliedRiverVersions(ctx, pool)
	if err != nil {
		return nil, err
	}
	rivers, err := riverMigrator(pool)
	if err != nil {
		return nil, err
	}
	for _, m := range rivers.AllVersions() {
		list = append(list, Migration{riverSchema, int64(m.Version), m.Name, applied[int64(m.Version)]})
	}
	return list, nil
}

// Pending counts the migrations, ours and River's, that this binary knows and the database has not seen.
func Pending(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	list, err := Status(ctx, pool)
	if err != nil {
		return 0, err
	}
	pending := 0
	for _, m := range list {
		if !m.Applied {
			pending++
		}
	}
	return pending, nil
}

// appliedVersions reads goose's table. Going down deletes a version's row.
func appliedVersions(ctx context.Context, pool *pgxpool.Pool) (map[int64]bool, error) {
	return readVersions(ctx, pool, versionTable, `select version_id from gateway.schema_versions where is_applied`)
}

// appliedRiverVersions reads River's table. Its own reader fails on versions that are newer than the binary.
func appliedRiverVersions(ctx context.Context, pool *pgxpool.Pool) (map[int64]bool, error) {
	return readVersions(ctx, pool, "river.river_migration", `select version from river.river_migration where line = 'main'`)
}

func readVersions(ctx context.Context, pool *pgxpool.Pool, table, query string) (map[int64]bool, error) {
	var exists bool
	if err := pool.QueryRow(ctx, `select to_regclass($1) is not null`, table).Scan(&exists); err != nil {
		return nil, fmt.Errorf("look for %s: %w", table, err)
	}
	if !exists {
		return nil, nil
	}
	rows, err := pool.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", table, err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", table, err)
	}
	applied := make(map[int64]bool, len(versions))
	for _, v := range versions {
		applied[v] = true
	}
	return applied, nil
}

// underLock runs a change of the schemas in a pool of its own, whose statements may take their time, while one of
// its connections holds the lock.
//
// The lock is polled for. Who waits in pg_advisory_lock holds a snapshot meanwhile, which the holder's CREATE INDEX
// CONCURRENTLY waits for: a deadlock that PostgreSQL does not see.
func underLock(ctx context.Context, shared *pgxpool.Pool, change func(*pgxpool.Pool) error) error {
	config := shared.Config()
	config.MaxConns = 4 // the lock's, goose's, River's, and one to spare
	config.MinConns, config.MinIdleConns = 0, 0
	config.ConnConfig.RuntimeParams["statement_timeout"] = "0"
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("make a pool for migrations: %w", err)
	}
	defer pool.Close()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect for migrations: %w", explain(config.ConnConfig, err))
	}
	defer conn.Release()
	for {
		var locked bool
		if err := conn.QueryRow(ctx, `select pg_try_advisory_lock($1)`, int64(migrationLock)).Scan(&locked); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if locked {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another process to migrate: %w", ctx.Err())
		case <-time.After(migrationLockPoll):
		}
	}
	for _, schema := range []string{"gateway", riverSchema} {
		if err := ensureSchema(ctx, conn, schema); err != nil {
			return err
		}
	}
	return change(pool) // the lock ends with its session, when the pool closes
}

// ensureSchema asks first: "if not exists" wants the right to create one even when there is nothing to create.
func ensureSchema(ctx context.Context, conn *pgxpool.Conn, name string) error {
	var exists bool
	if err := conn.QueryRow(ctx, `select to_regnamespace($1) is not null`, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for the schema %s: %w", name, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `create schema `+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create the schema %s: %w", name, err)
	}
	return nil
}

// gooseProvider reads our migrations; done gives its connections back. It runs nothing yet.
func gooseProvider(pool *pgxpool.Pool) (p *goose.Provider, done func(), err error) {
	db := stdlib.OpenDBFromPool(pool)
	p, err = goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read the migrations: %w", err), db.Close())
	}
	return p, func() { _ = db.Close() }, nil // closes idle connections of a pool that outlives it: nothing to lose
}

func riverMigrator(pool *pgxpool.Pool) (*rivermigrate.Migrator[pgx.Tx], error) {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: riverSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("read River's migrations: %w", err)
	}
	return m, nil
}
