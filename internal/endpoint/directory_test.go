package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// sets reads the endpoints of some tenants, as a pass does.
func (b *bench) sets(t *testing.T, d *endpoint.Directory, tenants ...uuid.UUID) map[uuid.UUID]*endpoint.Set {
	t.Helper()
	var sets map[uuid.UUID]*endpoint.Set
	err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) (err error) {
		sets, err = d.SetsTx(t.Context(), tx, tenants)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

// why is what comes of an event for an endpoint.
func why(verdicts []endpoint.Verdict, id uuid.UUID) endpoint.Why {
	for _, v := range verdicts {
		if v.Endpoint.ID == id {
			return v.Why
		}
	}
	return ""
}

func TestMatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	all, _ := b.create(t)
	invoices, _ := b.create(t, func(s *endpoint.Spec) {
		s.Types, s.Schedule, s.Timeout = []string{"invoice.*"}, []time.Duration{time.Minute}, 2*time.Second
	})
	project, _ := b.create(t, func(s *endpoint.Spec) { s.Types, s.Scopes = []string{"invoice.*"}, []string{"project/42"} })
	paused, _ := b.create(t, func(s *endpoint.Spec) { s.Types = []string{"invoice.*"} })
	disabled, _ := b.create(t, func(s *endpoint.Spec) { s.Types, s.Scopes = []string{"invoice.*"}, []string{"project/*"} })
	own, _ := b.create(t, func(s *endpoint.Spec) { s.Types = []string{"gateway.**"} })
	if _, err := b.db.Exec(t.Context(), `update gateway.endpoints set state = 'paused' where id = $1`, paused.ID); err != nil {
		t.Fatal(err)
	}
	b.disable(t, disabled.ID)
	set := b.sets(t, endpoint.NewDirectory(), b.caller.Tenant)[b.caller.Tenant]

	for _, c := range []struct {
		typ              string
		scopes, previous []string
		want             map[uuid.UUID]endpoint.Why
	}{
		{"invoice.paid", nil, nil, map[uuid.UUID]endpoint.Why{all.ID: endpoint.WhyMatched, invoices.ID: endpoint.WhyMatched, project.ID: endpoint.WhyScope,
			paused.ID: endpoint.WhyPaused, disabled.ID: endpoint.WhyScope, own.ID: endpoint.WhyType}},
		{"invoice.paid", []string{"project/42"}, nil, map[uuid.UUID]endpoint.Why{all.ID: endpoint.WhyMatched, invoices.ID: endpoint.WhyMatched, project.ID: endpoint.WhyMatched,
			paused.ID: endpoint.WhyPaused, disabled.ID: endpoint.WhyDisabled, own.ID: endpoint.WhyType}},
		{"invoice.paid", []string{"project/43"}, []string{"project/42"}, map[uuid.UUID]endpoint.Why{all.ID: endpoint.WhyMatched, invoices.ID: endpoint.WhyMatched, project.ID: endpoint.WhyMatched,
			paused.ID: endpoint.WhyPaused, disabled.ID: endpoint.WhyDisabled, own.ID: endpoint.WhyType}},
		{"user.created", nil, nil, map[uuid.UUID]endpoint.Why{all.ID: endpoint.WhyMatched, invoices.ID: endpoint.WhyType, project.ID: endpoint.WhyType,
			paused.ID: endpoint.WhyType, disabled.ID: endpoint.WhyType, own.ID: endpoint.WhyType}},
		{"gateway.endpoint.failing", nil, nil, map[uuid.UUID]endpoint.Why{all.ID: endpoint.WhyType, invoices.ID: endpoint.WhyType, project.ID: endpoint.WhyType,
			paused.ID: endpoint.WhyType, disabled.ID: endpoint.WhyType, own.ID: endpoint.WhyMatched}},
	} {
		for range 2 { // the second time what wants the type is remembered
			verdicts := set.Match(c.typ, c.scopes, c.previous)
			if len(verdicts) != len(c.want) {
				t.Fatalf("%d verdicts", len(verdicts))
			}
			for id, want := range c.want {
				if got := why(verdicts, id); got != want {
					t.Errorf("%s %v %v for %v: %s, want %s", c.typ, c.scopes, c.previous, id, got, want)
				}
			}
			if !slices.IsSortedFunc(verdicts, func(a, b endpoint.Verdict) int { return bytes.Compare(a.Endpoint.ID[:], b.Endpoint.ID[:]) }) {
				t.Error("the verdicts are in no order")
			}
		}
	}

	t.Run("a target of a set says what a delivery row needs", func(t *testing.T) {
		for _, v := range set.Match("invoice.paid", nil, nil) {
			e := v.Endpoint
			if e.TenantID != b.caller.Tenant || e.Version == 0 || e.URL != "https://r.example.com/in" {
				t.Errorf("got %+v", e)
			}
			if with := e.ID == invoices.ID; with != slices.Equal(e.Schedule, []time.Duration{time.Minute}) || !with && e.Schedule != nil || with != (e.Timeout == 2*time.Second) {
				t.Errorf("got %+v", e)
			}
		}
	})

	t.Run("a suspended tenant's endpoints hold what they would get", func(t *testing.T) {
		directory := endpoint.NewDirectory()
		b.sets(t, directory, b.caller.Tenant)
		if _, err := tenant.NewTenants(b.db).Update(t.Context(), b.caller.Tenant, tenant.Patch{State: tenant.To(tenant.Suspended)}, nil); err != nil {
			t.Fatal(err)
		}
		verdicts := b.sets(t, directory, b.caller.Tenant)[b.caller.Tenant].Match("invoice.paid", nil, nil)
		for id, want := range map[uuid.UUID]endpoint.Why{all.ID: endpoint.WhyPaused, invoices.ID: endpoint.WhyPaused, project.ID: endpoint.WhyScope, paused.ID: endpoint.WhyPaused} {
			if got := why(verdicts, id); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

func TestMatchRemembersABoundedNumberOfTypes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e, _ := b.create(t, func(s *endpoint.Spec) { s.Types = []string{"a.*.odd", "b"} })
	set := b.sets(t, endpoint.NewDirectory(), b.caller.Tenant)[b.caller.Tenant]
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				typ, want := fmt.Sprintf("a.%d.even", i), endpoint.WhyType
				if (i+worker)%2 == 1 {
					typ, want = fmt.Sprintf("a.%d.odd", i), endpoint.WhyMatched
				}
				if got := why(set.Match(typ, nil, nil), e.ID); got != want {
					t.Errorf("%s: %s", typ, got)
				}
			}
		})
	}
	wg.Wait()
}

// The rule that nothing may break: an endpoint that exists when an event is posted gets it. A pass reads the event, and
// then the endpoints; so whatever was committed before its read has to be in the set, whoever else fills the cache
// meanwhile with what they read earlier.
func TestADirectoryIsNeverOlderThanTheRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	directory := endpoint.NewDirectory()
	e, _ := b.create(t)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() { // other passes of the process
			for ctx.Err() == nil {
				_ = pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
					_, err := directory.SetsTx(ctx, tx, []uuid.UUID{b.caller.Tenant, b.other.Tenant})
					return err
				})
			}
		})
	}
	for i := range 60 {
		typ := fmt.Sprintf("t%d", i)
		if _, err := b.store.Update(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{Types: tenant.To([]string{typ})}, nil); err != nil {
			t.Fatal(err)
		}
		set := b.sets(t, directory, b.caller.Tenant)[b.caller.Tenant]
		if got := why(set.Match(typ, nil, nil), e.ID); got != endpoint.WhyMatched {
			t.Fatalf("change %d is not in the set: %s", i, got)
		}
	}
	stop()
	others.Wait()
}

func TestWhoHasNoSet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(t)
	unknown := uuid.New()
	directory := endpoint.NewDirectory()
	sets := b.sets(t, directory, b.caller.Tenant, b.other.Tenant, unknown)
	if len(sets) != 2 || sets[unknown] != nil {
		t.Errorf("%d sets", len(sets))
	}
	if n := len(sets[b.other.Tenant].Match("a", nil, nil)); n != 0 {
		t.Errorf("%d endpoints of a tenant that has none", n)
	}
	if _, err := b.db.Exec(t.Context(), `update gateway.tenants set deleted_at = now() where id = $1`, b.caller.Tenant); err != nil {
		t.Fatal(err)
	}
	if sets := b.sets(t, directory, b.caller.Tenant); len(sets) != 0 {
		t.Error("a tenant that is no more has a set")
	}
}

func TestADamagedRowHidesNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good, _ := b.create(t)
	types, _ := b.create(t)
	scopes, _ := b.create(t)
	for sql, id := range map[string]uuid.UUID{
		`update gateway.endpoints set types = '{[a-}' where id = $1`:      types.ID,
		`update gateway.endpoints set scopes = '{a,"b.c"}' where id = $1`: scopes.ID,
	} {
		if _, err := b.db.Exec(t.Context(), sql, id); err != nil {
			t.Fatal(err)
		}
	}
	set := b.sets(t, endpoint.NewDirectory(), b.caller.Tenant)[b.caller.Tenant]
	verdicts := set.Match("a", nil, nil)
	if len(verdicts) != 1 || why(verdicts, good.ID) != endpoint.WhyMatched {
		t.Errorf("got %+v", verdicts)
	}
	if broken := set.Broken(); len(broken) != 2 || !slices.Contains(broken, types.ID) || !slices.Contains(broken, scopes.ID) {
		t.Errorf("it says of %v that they are damaged", broken)
	}
}

func TestADirectoryKeepsABoundedNumber(t *testing.T) {
	t.Parallel()
	b := setup(t)
	directory := endpoint.NewDirectory()
	directory.Bound(7)
	tenants := []uuid.UUID{b.caller.Tenant, b.other.Tenant}
	for range 2 { // 1 + 3 + 3 for a tenant with two endpoints of one type and one scope glob each
		b.create(t)
		if _, _, err := b.store.Create(t.Context(), b.other, endpoint.Spec{URL: "https://r.example.com/in"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		sets := b.sets(t, directory, tenants...)
		for _, id := range tenants { // who asks gets all, kept or not
			if n := len(sets[id].Match("a", nil, nil)); n != 2 {
				t.Errorf("%d endpoints", n)
			}
		}
		if n, weight := directory.Kept(); n != 1 || weight != 7 {
			t.Errorf("it keeps %d sets of weight %d", n, weight)
		}
	}
	b.create(t)
	b.sets(t, directory, b.caller.Tenant)
	if n, weight := directory.Kept(); weight > 7 {
		t.Errorf("it keeps %d sets of weight %d", n, weight)
	}
}

func TestTheStoreKeepsTheTargetsInUse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.store.BoundTargets(3 << 10)
	var made []endpoint.Endpoint
	for range 4 {
		e, _ := b.create(t)
		made = append(made, e)
	}
	use := func(e endpoint.Endpoint) {
		t.Helper()
		if _, err := b.store.Target(t.Context(), e.ID, e.Version); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{0, 1, 2, 0, 3} {
		use(made[i])
	}
	if got, want := b.store.KeptTargets(), []uuid.UUID{made[3].ID, made[0].ID, made[2].ID}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	big, _ := b.create(t, func(s *endpoint.Spec) { s.Headers = map[string]string{"X-Big": strings.Repeat("a", 4096)} })
	use(big) // more than is kept at all: it is read each time
	if got := b.store.KeptTargets(); len(got) != 0 {
		t.Errorf("kept %v", got)
	}
	use(big)
}

func TestTarget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()

	t.Run("is read once a version, and never of an older one", func(t *testing.T) {
		t.Parallel()
		e, _ := b.create(t, func(s *endpoint.Spec) { s.Scopes = []string{"p/*"} })
		first, err := b.store.Target(ctx, e.ID, e.Version)
		if err != nil || first.TenantID != b.caller.Tenant || first.State != endpoint.Enabled || first.Timeout != 15*time.Second || !first.TraceParent || !first.Scopes.Match("p/1") {
			t.Fatalf("got %+v, %v", first, err)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if again, err := b.store.Target(gone, e.ID, e.Version); err != nil || again != first {
			t.Errorf("it was read again: %v", err)
		}
		changed, err := b.store.Update(ctx, b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{URL: tenant.To("https://r.example.com/new")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.store.Target(ctx, e.ID, changed.Version)
		if err != nil || second.URL != "https://r.example.com/new" || second.Version != changed.Version {
			t.Errorf("got %+v, %v", second, err)
		}
		if old, err := b.store.Target(gone, e.ID, e.Version); err != nil || old != second {
			t.Errorf("who asks for the version before gets %+v, %v", old, err)
		}
	})

	t.Run("of no endpoint is not found", func(t *testing.T) {
		t.Parallel()
		if _, err := b.store.Target(ctx, uuid.New(), 1); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("what doesn't open is the matter of its endpoint alone", func(t *testing.T) {
		t.Parallel()
		good, _ := b.create(t)
		bad, _ := b.create(t)
		// A secret that was moved here from another row does not open: seals name their owner.
		if _, err := b.db.Exec(ctx, `
			update gateway.endpoint_secrets set sealed = (select sealed from gateway.endpoint_secrets where endpoint_id = $2) where endpoint_id = $1`, bad.ID, good.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.Target(ctx, bad.ID, bad.Version); !errors.Is(err, signing.ErrSealBroken) {
			t.Errorf("got %v", err)
		}
		if _, err := b.store.Target(ctx, good.ID, good.Version); err != nil {
			t.Error(err)
		}
	})

	t.Run("a header of the gateway's never wins, not even from the row", func(t *testing.T) {
		t.Parallel()
		e, _ := b.create(t)
		key, err := signing.NewKey("k")
		if err != nil {
			t.Fatal(err)
		}
		ring, err := signing.ParseKeyring(key)
		if err != nil {
			t.Fatal(err)
		}
		planted, err := ring.Seal([]byte(`{"Webhook-Signature":"v1,evil","host":"evil","X-A":"1"}`), "endpoint_headers", e.ID)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := signing.NewSecret()
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := ring.Seal([]byte(secret.Text()), "endpoint_secret", e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.db.Exec(ctx, `update gateway.endpoints set headers = $2 where id = $1`, e.ID, planted); err != nil {
			t.Fatal(err)
		}
		if _, err := b.db.Exec(ctx, `update gateway.endpoint_secrets set sealed = $2 where endpoint_id = $1`, e.ID, sealed); err != nil {
			t.Fatal(err)
		}
		target, err := endpoint.NewStore(b.db, ring, egress.Policy{}, 5).Target(ctx, e.ID, e.Version)
		if err != nil || len(target.Header) != 1 || target.Header.Get("X-A") != "1" {
			t.Errorf("got %+v, %v", target, err)
		}
	})
}

func TestListEndpoints(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	uid := "main"
	plain, _ := b.create(t, func(s *endpoint.Spec) { s.UID, s.Types = &uid, []string{"invoice.*"} })
	failing, _ := b.create(t, func(s *endpoint.Spec) { s.URL = "https://HOOKS.acme.com/in_100%25" })
	healthy, _ := b.create(t, func(s *endpoint.Spec) { s.Types = []string{"user.created", "gateway.*"} })
	disabled, _ := b.create(t, func(s *endpoint.Spec) { s.Types = []string{"user.**"} })
	gone, _ := b.create(t)
	if err := b.store.Delete(ctx, b.caller, endpoint.Ref{ID: gone.ID}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.store.Create(ctx, b.other, endpoint.Spec{URL: "https://r.example.com/theirs"}); err != nil {
		t.Fatal(err)
	}
	b.disable(t, disabled.ID)
	for sql, id := range map[string]uuid.UUID{
		`update gateway.endpoint_state set failing_since = now(), last_failure_at = now(), last_class = 'timeout', failures = 3 where endpoint_id = $1`: failing.ID,
		`update gateway.endpoint_state set last_success_at = now() where endpoint_id = $1`:                                                              healthy.ID,
	} {
		if _, err := b.db.Exec(ctx, sql, id); err != nil {
			t.Fatal(err)
		}
	}

	for name, c := range map[string]struct {
		q    endpoint.ListQuery
		want []endpoint.Endpoint
	}{
		"all":                        {endpoint.ListQuery{}, []endpoint.Endpoint{plain, failing, healthy, disabled}},
		"by state":                   {endpoint.ListQuery{States: []endpoint.State{endpoint.Disabled, endpoint.Paused}}, []endpoint.Endpoint{disabled}},
		"by two states":              {endpoint.ListQuery{States: []endpoint.State{endpoint.Disabled, endpoint.Enabled}}, []endpoint.Endpoint{plain, failing, healthy, disabled}},
		"failing":                    {endpoint.ListQuery{Health: endpoint.Failing}, []endpoint.Endpoint{failing}},
		"healthy":                    {endpoint.ListQuery{Health: endpoint.Healthy}, []endpoint.Endpoint{healthy}},
		"unverified":                 {endpoint.ListQuery{Health: endpoint.Unverified}, []endpoint.Endpoint{plain, disabled}},
		"of a health unheard of":     {endpoint.ListQuery{Health: "poorly"}, nil},
		"by uid":                     {endpoint.ListQuery{UID: "main"}, []endpoint.Endpoint{plain}},
		"by a part of a uid":         {endpoint.ListQuery{UID: "mai"}, nil},
		"by a part of the URL":       {endpoint.ListQuery{URL: "Hooks.ACME"}, []endpoint.Endpoint{failing}},
		"by a percent sign, plainly": {endpoint.ListQuery{URL: "0%2"}, []endpoint.Endpoint{failing}},
		"by an underline, plainly":   {endpoint.ListQuery{URL: "h_oks"}, nil},
		"by type":                    {endpoint.ListQuery{Type: "user.created"}, []endpoint.Endpoint{failing, healthy, disabled}},
		"by a type of ours":          {endpoint.ListQuery{Type: "gateway.test"}, []endpoint.Endpoint{healthy}},
		"by several things":          {endpoint.ListQuery{Type: "user.created", Health: endpoint.Unverified}, []endpoint.Endpoint{disabled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []uuid.UUID
			for _, e := range c.want {
				want = append(want, e.ID)
			}
			slices.SortFunc(want, func(a, b uuid.UUID) int { return bytes.Compare(b[:], a[:]) })
			for _, size := range []int{0, 1, 2} {
				q := c.q
				q.Limit = size
				var got []uuid.UUID
				for {
					page, more, err := b.store.List(ctx, b.caller.Tenant, q)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range page {
						got = append(got, e.ID)
					}
					if !more {
						break
					}
					if len(page) != size {
						t.Fatalf("a page of %d that isn't the last", len(page))
					}
					q.Before = page[len(page)-1].ID
				}
				if !slices.Equal(got, want) {
					t.Errorf("in pages of %d: got %v, want %v", size, got, want)
				}
			}
		})
	}

	t.Run("each shows its health and its secrets", func(t *testing.T) {
		t.Parallel()
		got, err := b.store.Get(ctx, b.caller.Tenant, endpoint.Ref{ID: failing.ID})
		h := got.Health
		if err != nil || h.Status != endpoint.Failing || h.FailingSince == nil || h.LastFailureAt == nil || h.LastSuccessAt != nil || *h.LastClass != "timeout" || h.Failures != 3 {
			t.Errorf("got %+v, %v", h, err)
		}
		page, _, err := b.store.List(ctx, b.caller.Tenant, endpoint.ListQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			if len(e.Secrets) != 1 || len(e.Secrets[0].Fingerprint) != 8 || e.Secrets[0].RetiresAt != nil {
				t.Errorf("%+v", e.Secrets)
			}
		}
		if text := fmt.Sprintf("%+v", page); strings.Contains(text, "whsec_") {
			t.Error("a secret is shown")
		}
	})
}

func TestTheLimitHoldsForThoseWhoCreateAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			_, _, errs[i] = b.store.Create(t.Context(), b.caller, endpoint.Spec{URL: "https://r.example.com/in"})
		})
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, endpoint.ErrLimit):
			t.Error(err)
		}
	}
	if made != 6 {
		t.Errorf("%d were made where 6 are allowed", made)
	}
}

func TestATenantThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, caller := range []tenant.Caller{{Tenant: uuid.New(), Subject: "x"}, {Admin: true, Subject: "x"}} {
		if _, _, err := b.store.Create(t.Context(), caller, endpoint.Spec{URL: "https://r.example.com/in"}); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

func (b *bench) disable(t *testing.T, id uuid.UUID) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
		_, err := b.store.DisableTx(t.Context(), tx, b.caller.Tenant, id, endpoint.ReasonManual, "test")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
