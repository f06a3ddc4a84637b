package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

func TestEnsurePartitions(t *testing.T) {
	t.Parallel()
	// The last moment of a day in UTC, seen from a zone where it is the next day.
	evening := time.Date(2031, 3, 9, 23, 59, 59, 999_000_000, time.UTC)
	east := time.FixedZone("east", 5*60*60)

	t.Run("makes two tables for each missing day", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		for _, step := range []struct{ days, want int }{{3, 6}, {3, 0}, {4, 2}} {
			made, err := postgres.EnsurePartitions(t.Context(), pool, evening, step.days)
			if err != nil || made != step.want {
				t.Errorf("%d days: made %d (%v), want %d", step.days, made, err, step.want)
			}
		}
	})

	t.Run("finds the present covered after a migration", func(t *testing.T) {
		t.Parallel()
		made, err := postgres.EnsurePartitions(t.Context(), postgrestest.New(t), time.Now().AddDate(0, 0, -1), 8)
		if err != nil || made != 0 {
			t.Errorf("made %d (%v), want none", made, err)
		}
	})

	t.Run("holds an event's rows in the partition of its day in UTC", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		if _, err := postgres.EnsurePartitions(t.Context(), pool, evening.In(east), 2); err != nil {
			t.Fatal(err)
		}
		for at, want := range map[time.Time]string{
			evening:                          "gateway.attempts_20310309",
			evening.Add(time.Millisecond):    "gateway.attempts_20310310",
			evening.Add(24 * time.Hour):      "gateway.attempts_20310310",
			evening.Add(-24*time.Hour + 1e6): "gateway.attempts_20310309",
		} {
			var got string
			if err := pool.QueryRow(t.Context(), `
				insert into gateway.attempts (event_id, endpoint_id, number, id, tenant_id, process_id, trigger, outcome, class, sent, started_at)
				values (gateway.uuid_floor($1), gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'event', 'succeeded', 'ok', 'yes', now())
				returning tableoid::regclass::text`, at).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%v lies in %s, want %s", at, got, want)
			}
		}
	})

	t.Run("is done once by many at once", func(t *testing.T) {
		t.Parallel()
		pool := postgrestest.New(t)
		var made atomic.Int64
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				n, err := postgres.EnsurePartitions(t.Context(), pool, evening, 5)
				if err != nil {
					t.Errorf("ensure: %v", err)
				}
				made.Add(int64(n))
			})
		}
		all.Wait()
		if got := made.Load(); got != 10 {
			t.Errorf("made %d, want 10", got)
		}
	})
}
