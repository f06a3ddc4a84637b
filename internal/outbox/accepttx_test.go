package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

// named is a post with a uid.
func named(tenant uuid.UUID, uid, data string) outbox.Post {
	return outbox.Post{TenantID: tenant, UID: &uid, Type: "batch.x", Data: []byte(data)}
}

func TestAcceptTx(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := outbox.NewWriter(db, nil)
	store := func(posts []outbox.Post) (outcomes []outbox.Outcome, err error) {
		err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			outcomes, err = w.AcceptTx(ctx, tx, posts)
			return err
		})
		return outcomes, err
	}

	t.Run("each post has its outcome, in their order", func(t *testing.T) {
		tenant, foreign := uuid.New(), uuid.New()
		there := accept(t, w, named(tenant, "there", "1"))
		posts := []outbox.Post{
			named(tenant, "z", "1"), named(tenant, "there", "2"), named(tenant, "a", "1"), post(tenant), named(tenant, "there", "1"),
			named(tenant, "z", "1"), named(tenant, "z", "2"), named(foreign, "there", "2"), post(tenant),
		}
		o, err := store(posts)
		if err != nil || len(o) != len(posts) {
			t.Fatalf("%+v, %v", o, err)
		}
		for i, want := range []string{"new", "conflict", "new", "new", "duplicate", "duplicate", "conflict", "new", "new"} {
			got := "new"
			switch {
			case errors.Is(o[i].Err, outbox.ErrUIDConflict):
				got = "conflict"
			case o[i].Err != nil || o[i].Receipt.ID == uuid.Nil || o[i].Receipt.State != outbox.Pending || o[i].Receipt.AcceptedAt.IsZero():
				t.Errorf("post %d: %+v", i, o[i])
			case o[i].Receipt.Duplicate:
				got = "duplicate"
			}
			if got != want {
				t.Errorf("post %d is %s, want %s", i, got, want)
			}
		}
		if o[4].Receipt.ID != there.ID || o[5].Receipt.ID != o[0].Receipt.ID || o[3].Receipt.ID == o[8].Receipt.ID {
			t.Errorf("the ids are mixed up: %+v", o)
		}
		if n := count(t, db, `select count(*) from gateway.events where tenant_id = $1 or tenant_id = $2`, tenant, foreign); n != 6 {
			t.Errorf("%d events", n)
		}
	})

	t.Run("what is rolled back was never there", func(t *testing.T) {
		tenant := uuid.New()
		tx, err := db.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := w.AcceptTx(ctx, tx, []outbox.Post{named(tenant, "a", "1"), post(tenant)}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, `select count(*) from gateway.events where tenant_id = $1`, tenant); n != 0 {
			t.Errorf("%d events", n)
		}
	})

	// A third transaction holds the uid in the middle, so both get as far as they can before it lets go. Were the rows
	// written in the order of the posts, each would hold a half that the other one needs.
	t.Run("two with the same uids in opposite order never deadlock", func(t *testing.T) {
		for range 5 {
			tenant := uuid.New()
			var posts []outbox.Post
			for _, uid := range []string{"a", "b", "c", "m", "x", "y", "z"} {
				posts = append(posts, named(tenant, uid, "1"))
			}
			holder, err := db.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.AcceptTx(ctx, holder, []outbox.Post{named(tenant, "m", "other")}); err != nil {
				t.Fatal(err)
			}
			opposite := slices.Clone(posts)
			slices.Reverse(opposite)
			errs := make(chan error, 2)
			for _, list := range [][]outbox.Post{posts, opposite} {
				go func() { _, err := store(list); errs <- err }()
			}
			waiting := func() int {
				return count(t, db, `
					select count(*) from pg_locks l join pg_stat_activity a using (pid)
					where not l.granted and a.datname = current_database()`)
			}
			for waiting() < 2 && ctx.Err() == nil {
			}
			if err := holder.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-errs; err != nil {
					t.Errorf("a batch: %v", err)
				}
			}
			if n := count(t, db, `select count(*) from gateway.events where tenant_id = $1`, tenant); n != len(posts) {
				t.Errorf("%d events", n)
			}
		}
	})
}
