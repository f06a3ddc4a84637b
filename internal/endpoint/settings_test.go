package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// wrong holds an error to be about a field, and returns it.
func wrong(t *testing.T, err error, field, code string) *endpoint.Invalid {
	t.Helper()
	var e *endpoint.Invalid
	if !errors.As(err, &e) || e.Field != field || e.Code != code || e.Detail == "" {
		t.Errorf("got %v, want %s %s", err, code, field)
		return &endpoint.Invalid{}
	}
	return e
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

func TestWhatAnEndpointCannotBe(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, zero := 1, 0
	dot := "a.b"
	many := make(map[string]string)
	for i := range 51 {
		many[fmt.Sprint(i)] = ""
	}
	for name, c := range map[string]struct {
		change func(*endpoint.Spec)
		field  string
		code   string
	}{
		"no URL":              {func(s *endpoint.Spec) { s.URL = "" }, "url", egress.CodeURLInvalid},
		"a URL of a file":     {func(s *endpoint.Spec) { s.URL = "file:///etc/passwd" }, "url", egress.CodeURLInvalid},
		"a URL within":        {func(s *endpoint.Spec) { s.URL = "https://169.254.169.254/latest/" }, "url", egress.CodeURLBlocked},
		"a URL without TLS":   {func(s *endpoint.Spec) { s.URL = "http://r.example.com/" }, "url", egress.CodeURLInsecure},
		"a uid with a dot":    {func(s *endpoint.Spec) { s.UID = &dot }, "uid", tenant.CodeInvalid},
		"a long description":  {func(s *endpoint.Spec) { s.Description = strings.Repeat("a", 1025) }, "description", tenant.CodeInvalid},
		"NUL in it":           {func(s *endpoint.Spec) { s.Description = "a\x00" }, "description", tenant.CodeInvalid},
		"no types":            {func(s *endpoint.Spec) { s.Types = []string{} }, "types", tenant.CodeInvalid},
		"a type that is none": {func(s *endpoint.Spec) { s.Types = []string{"a", "b..c"} }, "types/1", tenant.CodeGlob},
		"51 types":            {func(s *endpoint.Spec) { s.Types = slices.Repeat([]string{"a"}, 51) }, "types/50", tenant.CodeGlob},
		"no scopes":           {func(s *endpoint.Spec) { s.Scopes = []string{} }, "scopes", tenant.CodeInvalid},
		"a scope with a dot":  {func(s *endpoint.Spec) { s.Scopes = []string{"project.42"} }, "scopes/0", tenant.CodeGlob},
		"a costly glob":       {func(s *endpoint.Spec) { s.Types = []string{"*a*a*a*a*a*a*a*a*a*a*z"} }, "types/0", tenant.CodeGlob},
		"much metadata":       {func(s *endpoint.Spec) { s.Metadata = many }, "metadata", tenant.CodeInvalid},
		"long metadata":       {func(s *endpoint.Spec) { s.Metadata = map[string]string{"k": strings.Repeat("v", 513)} }, "metadata/k", tenant.CodeInvalid},
		"no time":             {func(s *endpoint.Spec) { s.Timeout = time.Second - 1 }, "timeout_ms", tenant.CodeInvalid},
		"too much time":       {func(s *endpoint.Spec) { s.Timeout = 30*time.Second + time.Millisecond }, "timeout_ms", tenant.CodeInvalid},
		"a part of a ms":      {func(s *endpoint.Spec) { s.Timeout = time.Second + 1 }, "timeout_ms", tenant.CodeInvalid},
		"none in flight":      {func(s *endpoint.Spec) { s.MaxInFlight = -1 }, "max_in_flight", tenant.CodeInvalid},
		"101 in flight":       {func(s *endpoint.Spec) { s.MaxInFlight = 101 }, "max_in_flight", tenant.CodeInvalid},
		"a rate of nothing":   {func(s *endpoint.Spec) { s.RatePerSecond = &zero }, "rate_per_second", tenant.CodeInvalid},
		"no delays":           {func(s *endpoint.Spec) { s.Schedule = []time.Duration{} }, "schedule", tenant.CodeInvalid},
		"18 delays":           {func(s *endpoint.Spec) { s.Schedule = slices.Repeat([]time.Duration{time.Second}, 18) }, "schedule", tenant.CodeInvalid},
		"a delay of nothing":  {func(s *endpoint.Spec) { s.Schedule = []time.Duration{0} }, "schedule/0", tenant.CodeInvalid},
		"part of a second":    {func(s *endpoint.Spec) { s.Schedule = []time.Duration{1500 * time.Millisecond} }, "schedule/0", tenant.CodeInvalid},
		"a falling delay":     {func(s *endpoint.Spec) { s.Schedule = []time.Duration{2 * time.Second, time.Second} }, "schedule/1", tenant.CodeInvalid},
		"more than 8 days":    {func(s *endpoint.Spec) { s.Schedule = []time.Duration{days(4), days(4) + time.Second} }, "schedule", tenant.CodeInvalid},
		"a delay of ages":     {func(s *endpoint.Spec) { s.Schedule = slices.Repeat([]time.Duration{1 << 62}, 4) }, "schedule/0", tenant.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := endpoint.Spec{URL: "https://r.example.com/in"}
			c.change(&spec)
			_, secret, err := b.store.Create(t.Context(), b.caller, spec)
			e := wrong(t, err, c.field, c.code)
			if !secret.IsZero() {
				t.Error("a secret comes with the refusal")
			}
			if strings.HasPrefix(name, "no types") && e.Hint == "" {
				t.Error("an empty list is refused without a hint")
			}
		})
	}

	t.Run("the bounds themselves are allowed", func(t *testing.T) {
		t.Parallel()
		delays := append(slices.Repeat([]time.Duration{time.Second}, 16), days(8)-16*time.Second)
		var globs []string
		for i := range 50 {
			globs = append(globs, fmt.Sprintf("a.%d.*", i))
		}
		most := maps.Clone(many)
		delete(most, "0")
		e, _ := b.create(t, func(s *endpoint.Spec) {
			s.Description, s.Types, s.Timeout, s.MaxInFlight, s.RatePerSecond, s.Schedule = strings.Repeat("a", 1024), globs, 30*time.Second, 100, &one, delays
			s.Metadata = most
		})
		if !slices.Equal(e.Types, globs) || !slices.Equal(e.Schedule, delays) || *e.RatePerSecond != 1 || len(e.Metadata) != 50 {
			t.Errorf("got %+v", e)
		}
	})

	t.Run("nothing of what was refused is stored", func(t *testing.T) {
		t.Parallel()
		page, _, err := b.store.List(t.Context(), b.other.Tenant, endpoint.ListQuery{})
		if err != nil || len(page) != 0 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	create := func(headers map[string]string) error {
		_, _, err := b.store.Create(t.Context(), b.caller, endpoint.Spec{URL: "https://r.example.com/in", Headers: headers})
		return err
	}

	t.Run("names that are the gateway's, or that frame the request, are refused in any case", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{
			"webhook-signature", "Webhook-Id", "WEBHOOK-TIMESTAMP", "webhook-attempt", "webhook-event-type", "webhook-anything",
			"Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Proxy-Authorization",
			"proxy-connection", "Proxy-Authenticate", "Host", "HOST", "Content-Type", "Content-Encoding", "Accept-Encoding", "User-Agent",
			"traceparent", "Tracestate", "Expect",
		} {
			wrong(t, create(map[string]string{name: "a"}), "headers/"+name, tenant.CodeInvalid)
		}
	})

	t.Run("names that are none are refused", func(t *testing.T) {
		t.Parallel()
		for name, field := range map[string]string{
			"": "headers/", "a b": "headers/a b", "a:": "headers/a:", "a\r\nb": "headers/a\r\nb", "naïve": "headers/naïve", "a/b": "headers/a~1b",
			":authority": "headers/:authority", "a\x00": "headers/a\x00", "(a)": "headers/(a)", strings.Repeat("a", 129): "headers/" + strings.Repeat("a", 129),
		} {
			wrong(t, create(map[string]string{name: "a"}), field, tenant.CodeInvalid)
		}
	})

	t.Run("values that would break out, or arrive as others, are refused and not repeated", func(t *testing.T) {
		t.Parallel()
		for _, value := range []string{"hush\r\nX-Evil: 1", "hush\nb", "hush\rb", "hush\x00b", "hush\tb", "hush\x7f", "hush\u0085", "hush\xff", " hush", "hush ", "hush" + strings.Repeat("a", 4093)} {
			e := wrong(t, create(map[string]string{"X-Key": value}), "headers/X-Key", tenant.CodeInvalid)
			if strings.Contains(e.Error()+e.Hint, "hush") {
				t.Errorf("the refusal repeats the value: %v", e)
			}
		}
	})

	t.Run("one name is had once, in whatever case", func(t *testing.T) {
		t.Parallel()
		wrong(t, create(map[string]string{"X-Key": "a", "x-key": "b"}), "headers/x-key", tenant.CodeInvalid)
	})

	t.Run("there are at most twenty", func(t *testing.T) {
		t.Parallel()
		headers := make(map[string]string)
		for i := range 21 {
			headers[fmt.Sprintf("X-%02d", i)] = "a"
		}
		wrong(t, create(headers), "headers", tenant.CodeInvalid)
		delete(headers, "X-00")
		if err := create(headers); err != nil {
			t.Error(err)
		}
	})

	t.Run("a patch sets and removes them one by one, whatever the case", func(t *testing.T) {
		t.Parallel()
		e, _ := b.create(t, func(s *endpoint.Spec) {
			s.Headers = map[string]string{"authorization": "Bearer zzz", "x-a": "1", "X-!#$%&'*+-.^_`|~": "odd"}
		})
		if want := []string{"Authorization", "X-!#$%&'*+-.^_`|~", "X-A"}; !slices.Equal(e.HeaderNames, want) {
			t.Errorf("names %q, want %q", e.HeaderNames, want)
		}
		value := "2"
		e, err := b.store.Update(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{
			Headers: tenant.To(map[string]*string{"AUTHORIZATION": nil, "X-a": &value, "X-!#$%&'*+-.^_`|~": nil, "X-Absent": nil})}, nil)
		if err != nil || !slices.Equal(e.HeaderNames, []string{"X-A"}) {
			t.Fatalf("%q, %v", e.HeaderNames, err)
		}
		target, err := b.store.Target(t.Context(), e.ID, e.Version)
		if err != nil || len(target.Header) != 1 || target.Header.Get("X-A") != "2" {
			t.Errorf("%v, %v", target, err)
		}
		_, err = b.store.Update(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{Headers: tenant.To(map[string]*string{"Host": &value})}, nil)
		wrong(t, err, "headers/Host", tenant.CodeInvalid)
		e, err = b.store.Update(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{Headers: tenant.Clear[map[string]*string]()}, nil)
		if err != nil || len(e.HeaderNames) != 0 {
			t.Errorf("%q, %v", e.HeaderNames, err)
		}
	})

	t.Run("headers that no longer open can be replaced, but not merged", func(t *testing.T) {
		t.Parallel()
		e, _ := b.create(t, func(s *endpoint.Spec) { s.Headers = map[string]string{"X-A": "1"} })
		if _, err := b.db.Exec(t.Context(), `update gateway.endpoints set headers = 'broken' where id = $1`, e.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.Target(t.Context(), e.ID, e.Version); err == nil {
			t.Error("a target without its headers")
		}
		value := "2"
		if _, err := b.store.Update(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{Headers: tenant.To(map[string]*string{"X-B": &value})}, nil); err == nil {
			t.Error("they were merged with what can't be read")
		}
		e, err := b.store.Update(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{Headers: tenant.Clear[map[string]*string]()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if target, err := b.store.Target(t.Context(), e.ID, e.Version); err != nil || len(target.Header) != 0 {
			t.Errorf("%+v, %v", target, err)
		}
	})
}

func TestScopesOfTheCreator(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	narrow := b.caller
	narrow.EventScopes = []string{"project/42/**", "published"}

	t.Run("scopes that are left out are those of the token", func(t *testing.T) {
		t.Parallel()
		e, _, err := b.store.Create(ctx, narrow, endpoint.Spec{URL: "https://r.example.com/in"})
		if err != nil || !slices.Equal(e.Scopes, narrow.EventScopes) {
			t.Errorf("%q, %v", e.Scopes, err)
		}
	})
	t.Run("a part of them may be given, and nothing more", func(t *testing.T) {
		t.Parallel()
		e, _, err := b.store.Create(ctx, narrow, endpoint.Spec{URL: "https://r.example.com/in", Scopes: []string{"project/42/draft"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, scopes := range [][]string{{"**"}, {"*"}, {"project/*"}, {"project/42/**", "project/43"}, {"publishe*"}} {
			_, _, err := b.store.Create(ctx, narrow, endpoint.Spec{URL: "https://r.example.com/in", Scopes: scopes})
			wrong(t, err, "scopes", tenant.CodeNotGrantable)
			_, err = b.store.Update(ctx, narrow, endpoint.Ref{ID: e.ID}, endpoint.Patch{Scopes: tenant.To(scopes)}, nil)
			wrong(t, err, "scopes", tenant.CodeNotGrantable)
		}
	})
	// Else it could point the endpoint to a place of its own, and get there what it may not see.
	t.Run("a token changes no endpoint that gets more than it may see", func(t *testing.T) {
		t.Parallel()
		e, _ := b.create(t)
		_, err := b.store.Update(ctx, narrow, endpoint.Ref{ID: e.ID}, endpoint.Patch{URL: tenant.To("https://mine.example.com/")}, nil)
		wrong(t, err, "scopes", tenant.CodeNotGrantable)
		_, _, err = b.store.Rotate(ctx, narrow, endpoint.Ref{ID: e.ID}, endpoint.Rotation{}, nil)
		wrong(t, err, "scopes", tenant.CodeNotGrantable)
		got, err := b.store.Update(ctx, narrow, endpoint.Ref{ID: e.ID}, endpoint.Patch{URL: tenant.To("https://mine.example.com/"), Scopes: tenant.Clear[[]string]()}, nil)
		if err != nil || !slices.Equal(got.Scopes, narrow.EventScopes) {
			t.Errorf("narrowed to its own: %q, %v", got.Scopes, err)
		}
	})
}

func TestPatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	uid, rate, off := "main", 7, false
	whole := func(s *endpoint.Spec) {
		*s = endpoint.Spec{UID: &uid, URL: "https://R.example.com./in", Description: "d", Types: []string{"a.*", "*", "a.*"}, Scopes: []string{"p/*"},
			Headers: map[string]string{"X-A": "1"}, Metadata: map[string]string{"a": "1", "b": "2"}, Timeout: 2 * time.Second, MaxInFlight: 3,
			RatePerSecond: &rate, Schedule: []time.Duration{time.Second, time.Minute}, TraceParent: &off}
	}
	e, _ := b.create(t, whole)
	if e.URL != "https://r.example.com/in" || !slices.Equal(e.Types, []string{"a.*", "**"}) || e.TraceParent {
		t.Fatalf("stored as %+v", e)
	}

	same, err := b.store.Update(ctx, b.caller, endpoint.Ref{UID: uid}, endpoint.Patch{}, &e.Version)
	if err != nil {
		t.Fatal(err)
	}
	if same.Version != e.Version+1 || !same.UpdatedAt.After(e.UpdatedAt) {
		t.Errorf("version %d at %v", same.Version, same.UpdatedAt)
	}
	same.Version, same.UpdatedAt = e.Version, e.UpdatedAt
	if !reflect.DeepEqual(strip(same), strip(e)) {
		t.Errorf("an empty patch changed\n%+v into\n%+v", strip(e), strip(same))
	}

	two := "two"
	got, err := b.store.Update(ctx, b.caller, endpoint.Ref{UID: uid}, endpoint.Patch{
		Metadata: tenant.To(map[string]*string{"a": nil, "b": &two, "c": &two}), Schedule: tenant.To([]time.Duration{time.Hour}),
	}, nil)
	if err != nil || !maps.Equal(got.Metadata, map[string]string{"b": "two", "c": "two"}) || !slices.Equal(got.Schedule, []time.Duration{time.Hour}) {
		t.Errorf("members and lists: %+v, %v", got, err)
	}

	got, err = b.store.Update(ctx, b.caller, endpoint.Ref{UID: uid}, endpoint.Patch{
		UID: tenant.Clear[*string](), Description: tenant.Clear[string](), Types: tenant.Clear[[]string](), Scopes: tenant.Clear[[]string](),
		Headers: tenant.Clear[map[string]*string](), Metadata: tenant.Clear[map[string]*string](), Timeout: tenant.Clear[time.Duration](),
		MaxInFlight: tenant.Clear[int](), RatePerSecond: tenant.Clear[*int](), Schedule: tenant.Clear[[]time.Duration](), TraceParent: tenant.Clear[bool](),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := b.create(t, func(s *endpoint.Spec) { s.URL = "https://r.example.com/in" })
	if !reflect.DeepEqual(strip(got), strip(plain)) {
		t.Errorf("everything cleared is\n%+v, a new one is\n%+v", strip(got), strip(plain))
	}

	_, err = b.store.Update(ctx, b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{URL: tenant.Clear[string]()}, nil)
	wrong(t, err, "url", egress.CodeURLInvalid)
	_, err = b.store.Update(ctx, b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{URL: tenant.To("https://10.0.0.5/")}, nil)
	wrong(t, err, "url", egress.CodeURLBlocked)
	_, err = b.store.Update(ctx, b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{Timeout: tenant.To(time.Duration(0))}, nil)
	wrong(t, err, "timeout_ms", tenant.CodeInvalid)

	b.create(t, func(s *endpoint.Spec) { s.UID = &uid })
	if _, err := b.store.Update(ctx, b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{UID: tenant.To(&uid)}, nil); !errors.Is(err, endpoint.ErrUIDTaken) {
		t.Errorf("another one's uid: %v", err)
	}
}

// An endpoint whose URL a stricter policy would refuse today can still be renamed.
func TestAnOldURLStaysUntilItIsChanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e, _ := b.create(t)
	if _, err := b.db.Exec(t.Context(), `update gateway.endpoints set url = 'http://10.0.0.5/' where id = $1`, e.ID); err != nil {
		t.Fatal(err)
	}
	got, err := b.store.Update(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{Description: tenant.To("old")}, nil)
	if err != nil || got.URL != "http://10.0.0.5/" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	uid := "main"
	e, _ := b.create(t, func(s *endpoint.Spec) { s.UID, s.Headers = &uid, map[string]string{"X-A": "1"} })
	before := b.configVersion(t)

	stale := e.Version + 1
	var version *endpoint.VersionError
	if err := b.store.Delete(ctx, b.caller, endpoint.Ref{ID: e.ID}, &stale); !errors.As(err, &version) || version.Current != e.Version {
		t.Errorf("another version: %v", err)
	}
	if err := b.store.Delete(ctx, b.caller, endpoint.Ref{UID: uid}, &e.Version); err != nil {
		t.Fatal(err)
	}
	if after := b.configVersion(t); after != before+1 {
		t.Errorf("config_version went from %d to %d", before, after)
	}
	for _, ref := range []endpoint.Ref{{ID: e.ID}, {UID: uid}} {
		if err := b.store.Delete(ctx, b.caller, ref, nil); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("again: %v", err)
		}
		if _, err := b.store.Get(ctx, b.caller.Tenant, ref); !errors.Is(err, endpoint.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
	}
	var sealed int
	err := b.db.QueryRow(ctx, `
		select (select count(*) from gateway.endpoint_secrets where endpoint_id = $1) + (select count(headers) from gateway.endpoints where id = $1)`, e.ID).Scan(&sealed)
	if err != nil || sealed != 0 {
		t.Errorf("%d sealed things are left, %v", sealed, err)
	}
	if again, _ := b.create(t, func(s *endpoint.Spec) { s.UID = &uid }); again.ID == e.ID {
		t.Error("the same endpoint came back")
	}
	for _, tenantID := range []uuid.UUID{b.caller.Tenant, uuid.New()} { // of a tenant that is no more, too
		err = pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
			changed, err := b.store.DisableTx(ctx, tx, tenantID, e.ID, endpoint.ReasonGone, "gateway")
			if changed {
				t.Error("a deleted endpoint was disabled")
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Whoever changes an endpoint's state takes the row that leases are given out under, and waits for whoever holds it.
func TestStateChangesTakeTheirTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e, _ := b.create(t)
	holder, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(context.WithoutCancel(t.Context()))
	if _, err := holder.Exec(t.Context(), `select from gateway.endpoint_state where endpoint_id = $1 for no key update`, e.ID); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.store.Delete(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, nil) }()
	b.untilBlocked(t)
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	// What waits holds nothing that others need: the endpoint itself can still be changed.
	if _, err := b.store.Update(t.Context(), b.caller, endpoint.Ref{ID: e.ID}, endpoint.Patch{Description: tenant.To("d")}, nil); err != nil {
		t.Error(err)
	}
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// untilBlocked waits until a connection to the test's database waits for a lock.
func (b *bench) untilBlocked(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		var blocked bool
		err := b.db.QueryRow(t.Context(), `
			select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
		if blocked {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
	}
}

// strip leaves what a request sets.
func strip(e endpoint.Endpoint) endpoint.Endpoint {
	e.ID, e.CreatedAt, e.UpdatedAt, e.StateAt, e.Version, e.Secrets = uuid.Nil, time.Time{}, time.Time{}, time.Time{}, 0, nil
	return e
}
