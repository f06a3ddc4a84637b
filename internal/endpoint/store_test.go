package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

type bench struct {
	db     *pgxpool.Pool
	store  *endpoint.Store
	caller tenant.Caller
	other  tenant.Caller // of another tenant
}

func setup(t *testing.T) *bench {
	t.Helper()
	ctx := context.Background()
	db := postgrestest.New(t)
	key, err := signing.NewKey("test")
	if err != nil {
		t.Fatal(err)
	}
	ring, err := signing.ParseKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{db: db, store: endpoint.NewStore(db, ring, egress.Policy{}, 6)}
	for _, c := range []*tenant.Caller{&b.caller, &b.other} {
		made, err := tenant.NewTenants(db).Create(ctx, tenant.Spec{Name: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		*c = tenant.Caller{Tenant: made.ID, Subject: "test"}
	}
	return b
}

func (b *bench) create(t *testing.T, change ...func(*endpoint.Spec)) (endpoint.Endpoint, signing.Secret) {
	t.Helper()
	spec := endpoint.Spec{URL: "https://r.example.com/in"}
	for _, c := range change {
		c(&spec)
	}
	e, secret, err := b.store.Create(context.Background(), b.caller, spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return e, secret
}

func (b *bench) configVersion(t *testing.T) (v int64) {
	t.Helper()
	if err := b.db.QueryRow(context.Background(), `select config_version from gateway.tenants where id = $1`, b.caller.Tenant).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCreate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := context.Background()

	t.Run("defaults are filled in and the secret is shown once", func(t *testing.T) {
		e, secret := b.create(t, func(s *endpoint.Spec) { s.Headers = map[string]string{"X-Api-Key": "hunter2"} })
		got, err := b.store.Get(ctx, b.caller.Tenant, endpoint.Ref{ID: e.ID})
		if err != nil || fmt.Sprintf("%v %v %v %v %v %v %v", got.Types, got.Scopes, got.Timeout, got.MaxInFlight, got.State, got.Health.Status, got.Version) != "[**] [**] 15s 50 enabled unverified 1" {
			t.Fatalf("Get = %+v, %v", got, err)
		}
		if len(got.Secrets) != 1 || got.Secrets[0].Fingerprint != secret.Fingerprint() || fmt.Sprint(got.HeaderNames) != "[X-Api-Key]" {
			t.Errorf("secrets %+v, headers %v", got.Secrets, got.HeaderNames)
		}
		var row string
		if err := b.db.QueryRow(ctx, `select e::text || s::text from gateway.endpoints e join gateway.endpoint_secrets s on s.endpoint_id = e.id where e.id = $1`, e.ID).Scan(&row); err != nil {
			t.Fatal(err)
		}
		plain := strings.TrimPrefix(secret.Text(), "whsec_")
		if strings.Contains(row, plain) || strings.Contains(row, "hunter2") || strings.Contains(row, fmt.Sprintf("%x", "hunter2")) || strings.Contains(row, fmt.Sprintf("%x", secret.Text())) {
			t.Error("a secret stands in the table as plain text")
		}
		target, err := b.store.Target(ctx, e.ID, e.Version)
		if err != nil || target.Header.Get("X-Api-Key") != "hunter2" || target.URL != "https://r.example.com/in" {
			t.Errorf("Target = %+v, %v", target, err)
		}
	})

	t.Run("a tenant has at most its limit, and an uid once", func(t *testing.T) {
		uid := "main"
		b.create(t, func(s *endpoint.Spec) { s.UID = &uid })
		if _, _, err := b.store.Create(ctx, b.caller, endpoint.Spec{URL: "https://r.example.com/", UID: &uid}); !errors.Is(err, endpoint.ErrUIDTaken) {
			t.Errorf("the uid again: %v", err)
		}
		for range 4 {
			b.create(t)
		}
		if _, _, err := b.store.Create(ctx, b.caller, endpoint.Spec{URL: "https://r.example.com/"}); !errors.Is(err, endpoint.ErrLimit) {
			t.Errorf("past the limit: %v", err)
		}
		if _, _, err := b.store.Create(ctx, b.other, endpoint.Spec{URL: "https://r.example.com/", UID: &uid}); err != nil {
			t.Errorf("another tenant's: %v", err)
		}
	})
}

func TestForeignEndpointIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := context.Background()
	uid := "main"
	e, _ := b.create(t, func(s *endpoint.Spec) { s.UID = &uid })
	for _, ref := range []endpoint.Ref{{ID: e.ID}, {UID: uid}, {ID: uuid.New()}, {UID: "nobody"}} {
		if _, err := b.store.Get(ctx, b.other.Tenant, ref); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("Get(%+v) = %v", ref, err)
		}
		if _, err := b.store.Update(ctx, b.other, ref, endpoint.Patch{Description: tenant.To("mine")}, nil); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("Update(%+v) = %v", ref, err)
		}
		if _, _, err := b.store.Rotate(ctx, b.other, ref, endpoint.Rotation{}, nil); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("Rotate(%+v) = %v", ref, err)
		}
		if _, err := b.store.EndPrevious(ctx, b.other, ref, nil); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("EndPrevious(%+v) = %v", ref, err)
		}
		if err := b.store.Delete(ctx, b.other, ref, nil); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("Delete(%+v) = %v", ref, err)
		}
	}
	if got, err := b.store.Get(ctx, b.caller.Tenant, endpoint.Ref{ID: e.ID}); err != nil || got.Version != 1 {
		t.Errorf("its owner reads %+v, %v", got, err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := context.Background()
	e, _ := b.create(t)
	ref := endpoint.Ref{ID: e.ID}

	t.Run("of two changes that name one version, one is made", func(t *testing.T) {
		version := e.Version
		errs := make(chan error, 2)
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := b.store.Update(ctx, b.caller, ref, endpoint.Patch{Description: tenant.To(fmt.Sprint(i))}, &version)
				errs <- err
			}()
		}
		wg.Wait()
		first, second := <-errs, <-errs
		if (first == nil) == (second == nil) {
			t.Fatalf("errors %v and %v", first, second)
		}
		var stale *endpoint.VersionError
		if !errors.As(errors.Join(first, second), &stale) || stale.Current != version+1 {
			t.Errorf("the other one hears %+v", stale)
		}
	})

	t.Run("each change is as new for every cache", func(t *testing.T) {
		before := b.configVersion(t)
		if _, err := b.store.Update(ctx, b.caller, ref, endpoint.Patch{Types: tenant.To([]string{"a.*", "a.*"})}, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.store.Rotate(ctx, b.caller, ref, endpoint.Rotation{}, nil); err != nil {
			t.Fatal(err)
		}
		if after := b.configVersion(t); after != before+2 {
			t.Errorf("config_version went from %d to %d", before, after)
		}
		got, err := b.store.Get(ctx, b.caller.Tenant, ref)
		if err != nil || fmt.Sprint(got.Types) != "[a.*]" {
			t.Errorf("types %v, %v", got.Types, err)
		}
	})

	t.Run("a directory sees what was there before its transaction read, always", func(t *testing.T) {
		directory := endpoint.NewDirectory()
		tenants := []uuid.UUID{b.caller.Tenant}
		matched := func() (n int) {
			err := pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
				sets, err := directory.SetsTx(ctx, tx, tenants)
				if err != nil {
					return err
				}
				for _, v := range sets[b.caller.Tenant].Match("a.b", nil, nil) {
					if v.Why == endpoint.WhyMatched {
						n++
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		had := matched()
		second, _ := b.create(t)
		if n := matched(); n != had+1 {
			t.Errorf("%d match after one was created, %d before", n, had)
		}
		if err := b.store.Delete(ctx, b.caller, endpoint.Ref{ID: second.ID}, nil); err != nil {
			t.Fatal(err)
		}
		if n := matched(); n != had {
			t.Errorf("%d match after it was deleted, want %d", n, had)
		}
		if _, err := b.store.Target(ctx, second.ID, second.Version); err == nil {
			// The version that was read before may still be in memory: a later one is not.
			t.Log("the deleted endpoint's target was still known")
		}
		if _, err := b.store.Target(ctx, second.ID, second.Version+1); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("Target of the deleted one = %v", err)
		}
	})

	t.Run("disabling is a change of the endpoint, once", func(t *testing.T) {
		for i, want := range []bool{true, false} {
			err := pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
				changed, err := b.store.DisableTx(ctx, tx, b.caller.Tenant, e.ID, endpoint.ReasonGone, "gateway")
				if changed != want {
					t.Errorf("call %d: changed %v", i+1, changed)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got, err := b.store.Get(ctx, b.caller.Tenant, ref); err != nil || got.State != endpoint.Disabled || *got.DisabledReason != endpoint.ReasonGone {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestRotate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := context.Background()
	at, body := time.Unix(1_700_000_000, 0), []byte(`{}`)
	signed := func(t *testing.T, e endpoint.Endpoint) string {
		t.Helper()
		target, err := b.store.Target(ctx, e.ID, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		return target.Signer.Sign("evt_1", at, body)
	}
	by := func(t *testing.T, secrets ...signing.Secret) string {
		t.Helper()
		s, err := signing.NewSigner(secrets...)
		if err != nil {
			t.Fatal(err)
		}
		return s.Sign("evt_1", at, body)
	}
	rotate := func(t *testing.T, e endpoint.Endpoint, r endpoint.Rotation) (endpoint.Endpoint, signing.Secret) {
		t.Helper()
		e, secret, err := b.store.Rotate(ctx, b.caller, endpoint.Ref{ID: e.ID}, r, nil)
		if err != nil {
			t.Fatalf("Rotate: %v", err)
		}
		return e, secret
	}

	t.Run("the newest signs first, those before sign on, and a fourth is refused", func(t *testing.T) {
		e, first := b.create(t)
		e, second := rotate(t, e, endpoint.Rotation{Grace: time.Hour})
		if got := signed(t, e); got != by(t, second, first) {
			t.Errorf("after one rotation: %s", got)
		}
		until := *e.Secrets[1].RetiresAt
		e, third := rotate(t, e, endpoint.Rotation{Grace: time.Hour})
		if got := signed(t, e); got != by(t, third, second, first) {
			t.Errorf("after two: %s", got)
		}
		if len(e.Secrets) != 3 || !e.Secrets[2].RetiresAt.Equal(until) || !e.Secrets[1].RetiresAt.After(until) {
			t.Errorf("the second rotation moved the first one's end: %+v", e.Secrets)
		}
		if _, _, err := b.store.Rotate(ctx, b.caller, endpoint.Ref{ID: e.ID}, endpoint.Rotation{Grace: time.Hour}, nil); !errors.Is(err, endpoint.ErrRotationLimit) {
			t.Errorf("a fourth: %v", err)
		}
		e, err := b.store.EndPrevious(ctx, b.caller, endpoint.Ref{ID: e.ID}, nil)
		if err != nil || len(e.Secrets) != 1 {
			t.Fatalf("EndPrevious = %+v, %v", e.Secrets, err)
		}
		if got := signed(t, e); got != by(t, third) {
			t.Errorf("after the previous ones were ended: %s", got)
		}
	})

	t.Run("no grace stops the one before at once, and nothing of it is kept", func(t *testing.T) {
		e, _ := b.create(t)
		e, second := rotate(t, e, endpoint.Rotation{})
		if got := signed(t, e); got != by(t, second) {
			t.Errorf("signed %s", got)
		}
		var rows int
		if err := b.db.QueryRow(ctx, `select count(*) from gateway.endpoint_secrets where endpoint_id = $1`, e.ID).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d rows, %v", rows, err)
		}
	})

	t.Run("a grace ends by itself", func(t *testing.T) {
		e, _ := b.create(t)
		e, second := rotate(t, e, endpoint.Rotation{Grace: 100 * time.Millisecond})
		deadline := time.Now().Add(10 * time.Second)
		want := by(t, second)
		for signed(t, e) != want {
			if time.Now().After(deadline) {
				t.Fatal("the old secret signs on past its grace")
			}
		}
	})

	t.Run("a secret may be brought along, and stays what it is", func(t *testing.T) {
		imported, err := signing.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		if err != nil {
			t.Fatal(err)
		}
		e, _ := b.create(t)
		e, got := rotate(t, e, endpoint.Rotation{Secret: imported})
		if !got.Equal(imported) || signed(t, e) != by(t, imported) {
			t.Error("another secret signs")
		}
	})

	t.Run("a grace out of bounds is refused", func(t *testing.T) {
		e, _ := b.create(t)
		for _, grace := range []time.Duration{-1, endpoint.MaxGrace + 1} {
			var wrong *endpoint.Invalid
			if _, _, err := b.store.Rotate(ctx, b.caller, endpoint.Ref{ID: e.ID}, endpoint.Rotation{Grace: grace}, nil); !errors.As(err, &wrong) || wrong.Field != "grace_seconds" {
				t.Errorf("grace %v: %v", grace, err)
			}
		}
	})

	t.Run("what is sealed opens with no other key", func(t *testing.T) {
		e, _ := b.create(t)
		key, err := signing.NewKey("other")
		if err != nil {
			t.Fatal(err)
		}
		ring, err := signing.ParseKeyring(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := endpoint.NewStore(b.db, ring, egress.Policy{}, 5).Target(ctx, e.ID, e.Version); !errors.Is(err, signing.ErrUnknownKey) {
			t.Errorf("Target = %v", err)
		}
	})
}
