package tenant_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/tenant"
)

func TestTenants(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()

	t.Run("one is read by its id and by its uid, and no other is", func(t *testing.T) {
		t.Parallel()
		byID, err := f.tenants.Get(ctx, f.acme.ID)
		if err != nil || byID.Name != "Acme" || byID.State != tenant.Active || byID.Metadata["plan"] != "gold" {
			t.Errorf("got %+v, %v", byID, err)
		}
		byUID, err := f.tenants.GetByUID(ctx, "acme")
		if err != nil || byUID.ID != f.acme.ID {
			t.Errorf("got %+v, %v", byUID, err)
		}
		if _, err := f.tenants.Get(ctx, uuid.New()); !errors.Is(err, tenant.ErrNotFound) {
			t.Errorf("an unknown id: %v", err)
		}
		if _, err := f.tenants.GetByUID(ctx, "ACME"); !errors.Is(err, tenant.ErrNotFound) {
			t.Errorf("an unknown uid: %v", err)
		}
	})

	t.Run("a uid is had once", func(t *testing.T) {
		t.Parallel()
		uid := "acme"
		if _, err := f.tenants.Create(ctx, tenant.Spec{Name: "Other", UID: &uid}); !errors.Is(err, tenant.ErrUIDTaken) {
			t.Errorf("create: %v", err)
		}
		other, err := f.tenants.Create(ctx, tenant.Spec{Name: "Other"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.tenants.Update(ctx, other.ID, tenant.Patch{UID: tenant.To(&uid)}, nil); !errors.Is(err, tenant.ErrUIDTaken) {
			t.Errorf("update: %v", err)
		}
	})

	t.Run("what can't be stored is refused by name", func(t *testing.T) {
		t.Parallel()
		many := make(map[string]string)
		for i := range 51 {
			many[fmt.Sprint(i)] = ""
		}
		bad := func(s string) *string { return &s }
		for field, spec := range map[string]tenant.Spec{
			"name":             {Name: " "},
			"name#control":     {Name: "a\x00b"},
			"name#utf8":        {Name: "a\xff"},
			"name#long":        {Name: strings.Repeat("a", 257)},
			"uid":              {Name: "a", UID: bad("a.b")},
			"uid#empty":        {Name: "a", UID: bad("")},
			"uid#long":         {Name: "a", UID: bad(strings.Repeat("a", 129))},
			"metadata":         {Name: "a", Metadata: many},
			"metadata#key":     {Name: "a", Metadata: map[string]string{"": "a"}},
			"metadata/a~1b":    {Name: "a", Metadata: map[string]string{"a/b": strings.Repeat("a", 513)}},
			"metadata/k":       {Name: "a", Metadata: map[string]string{"k": "a\x00"}},
			"metadata#longkey": {Name: "a", Metadata: map[string]string{strings.Repeat("a", 65): "a"}},
		} {
			_, err := f.tenants.Create(ctx, spec)
			var e *tenant.Invalid
			if want, _, _ := strings.Cut(field, "#"); !errors.As(err, &e) || e.Field != want || e.Code != tenant.CodeInvalid {
				t.Errorf("%s: got %v", field, err)
			}
		}
	})
}

func TestUpdateTenant(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	configVersion := func() (v int64) {
		t.Helper()
		if err := f.pool.QueryRow(ctx, `select config_version from gateway.tenants where id = $1`, f.acme.ID).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := configVersion()

	silver := "silver"
	got, err := f.tenants.Update(ctx, f.acme.ID, tenant.Patch{Metadata: tenant.To(map[string]*string{"plan": nil, "tier": &silver})}, &f.acme.Version)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Metadata, map[string]string{"tier": "silver"}) || got.Name != "Acme" || *got.UID != "acme" {
		t.Errorf("a patch of metadata made it %+v", got)
	}
	if got.Version != f.acme.Version+1 || configVersion() != before {
		t.Errorf("version %d, config_version %d", got.Version, configVersion())
	}

	_, err = f.tenants.Update(ctx, f.acme.ID, tenant.Patch{Name: tenant.To("B")}, &f.acme.Version)
	var stale *tenant.VersionError
	if !errors.As(err, &stale) || stale.Current != got.Version || !errors.Is(err, tenant.ErrVersion) {
		t.Errorf("an old version: %v", err)
	}

	suspended, err := f.tenants.Update(ctx, f.acme.ID, tenant.Patch{State: tenant.To(tenant.Suspended)}, nil)
	if err != nil || suspended.State != tenant.Suspended || suspended.SuspendedAt == nil || configVersion() != before+1 {
		t.Errorf("suspended: %+v, config_version %d, %v", suspended, configVersion(), err)
	}
	again, err := f.tenants.Update(ctx, f.acme.ID, tenant.Patch{State: tenant.To(tenant.Suspended)}, nil)
	if err != nil || !again.SuspendedAt.Equal(*suspended.SuspendedAt) || configVersion() != before+1 {
		t.Errorf("suspended again: %+v, config_version %d, %v", again, configVersion(), err)
	}
	resumed, err := f.tenants.Update(ctx, f.acme.ID, tenant.Patch{State: tenant.To(tenant.Active), UID: tenant.Clear[*string]()}, nil)
	if err != nil || resumed.State != tenant.Active || resumed.SuspendedAt != nil || resumed.UID != nil || configVersion() != before+2 {
		t.Errorf("resumed: %+v, config_version %d, %v", resumed, configVersion(), err)
	}

	var e *tenant.Invalid
	if _, err := f.tenants.Update(ctx, f.acme.ID, tenant.Patch{State: tenant.To(tenant.State("gone"))}, nil); !errors.As(err, &e) || e.Field != "state" {
		t.Errorf("an unknown state: %v", err)
	}
	if _, err := f.tenants.Update(ctx, f.acme.ID, tenant.Patch{Name: tenant.Clear[string]()}, nil); !errors.As(err, &e) || e.Field != "name" {
		t.Errorf("no name: %v", err)
	}
	if _, err := f.tenants.Update(ctx, uuid.New(), tenant.Patch{}, nil); !errors.Is(err, tenant.ErrNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
}

func TestOfTwoUpdatesOfOneVersionOneWins(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = f.tenants.Update(t.Context(), f.acme.ID, tenant.Patch{Name: tenant.To(fmt.Sprint(i))}, &f.acme.Version)
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, tenant.ErrVersion):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

func TestListTenants(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	want := []uuid.UUID{f.acme.ID}
	for i := range 6 {
		n, err := f.tenants.Create(ctx, tenant.Spec{Name: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, n.ID)
	}
	// Newest first; within a millisecond an id's random bits decide.
	slices.SortFunc(want, func(a, b uuid.UUID) int { return bytes.Compare(b[:], a[:]) })
	var got []uuid.UUID
	q := tenant.ListQuery{Limit: 3}
	for {
		page, more, err := f.tenants.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range page {
			got = append(got, n.ID)
		}
		if !more {
			break
		}
		if len(page) != 3 {
			t.Fatalf("a page of %d that isn't the last", len(page))
		}
		q.Before = page[len(page)-1].ID
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := f.tenants.Update(ctx, f.acme.ID, tenant.Patch{State: tenant.To(tenant.Suspended)}, nil); err != nil {
		t.Fatal(err)
	}
	page, more, err := f.tenants.List(ctx, tenant.ListQuery{States: []tenant.State{tenant.Suspended}})
	if err != nil || more || len(page) != 1 || page[0].ID != f.acme.ID {
		t.Errorf("the suspended ones: %+v, %v", page, err)
	}
}
