package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier is a pool, a connection or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// EnsurePartitions makes the day partitions of deliveries and attempts that are missing among so many days from
// the day of firstDay (UTC) on, and says how many tables it made: two for each day. Safe to call at once from many
// processes; in a transaction it holds the lock that makes it so until the transaction's end.
func EnsurePartitions(ctx context.Context, db Querier, firstDay time.Time, days int) (made int, err error) {
	if err := db.QueryRow(ctx, `select gateway.ensure_partitions($1, $2)`, firstDay.UTC(), days).Scan(&made); err != nil {
		return 0, fmt.Errorf("make the partitions of %d days from %s on: %w", days, firstDay.UTC().Format(time.DateOnly), err)
	}
	return made, nil
}
