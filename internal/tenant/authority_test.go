package tenant_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

func TestIssue(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()

	t.Run("a tenant's token speaks for its tenant, with what it was given", func(t *testing.T) {
		t.Parallel()
		token, text := f.issue(t, tenant.TokenSpec{Name: "billing", Subject: "billing-service", Scopes: []string{"events:write", "events:read", "events:write"},
			EventScopes: []string{"project/*", "*", "project/*"}, Lifetime: time.Hour})
		got := accepted(t, f.authority, text)
		if got.Tenant != f.acme.ID || got.Token != token.ID || got.Admin || got.Suspended || got.Subject != "billing-service" {
			t.Errorf("got %+v", got)
		}
		if !slices.Equal(got.Scopes, []string{"events:read", "events:write"}) || !slices.Equal(got.EventScopes, []string{"project/*", "**"}) {
			t.Errorf("got %+v", got)
		}
		if !got.ExpiresAt.Equal(token.ExpiresAt) || got.ExpiresAt.Sub(f.clock.Now()) > time.Hour {
			t.Errorf("expires at %v, its row says %v", got.ExpiresAt, token.ExpiresAt)
		}
		if !got.Allows("events:write") || got.Allows("tokens:write") {
			t.Error("Allows is wrong")
		}
		if c := *token.CreatedBy; c != "operator" {
			t.Errorf("created by %q", c)
		}
	})

	t.Run("an operator's token has no tenant", func(t *testing.T) {
		t.Parallel()
		_, text := f.issue(t, tenant.TokenSpec{Admin: true, Role: "operator"})
		got := accepted(t, f.authority, text)
		if got.Tenant != uuid.Nil || !got.Admin || !got.Allows("admin:tenants") || got.EventScopes != nil {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("the text holds what it must, and its kid is published", func(t *testing.T) {
		t.Parallel()
		_, text := f.issue(t, tenant.TokenSpec{Role: "viewer"})
		header, claims := decode(t, text)
		if header["alg"] != "EdDSA" || header["kid"] == "" {
			t.Errorf("header %v", header)
		}
		if claims["aud"] != "gateway-api" || claims["iss"] != "sallyport" || claims["ten"] != typeid.Format(typeid.Tenant, f.acme.ID) {
			t.Errorf("claims %v", claims)
		}
		if _, has := claims["evs"]; has {
			t.Error("evs stands there, with all event scopes")
		}
		raw, err := f.authority.JWKS(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var set struct{ Keys []map[string]string }
		if err := json.Unmarshal(raw, &set); err != nil {
			t.Fatal(err)
		}
		if len(set.Keys) != 1 || set.Keys[0]["kid"] != header["kid"] || set.Keys[0]["crv"] != "Ed25519" || len(set.Keys[0]["x"]) != 43 {
			t.Errorf("published: %s", raw)
		}
		if strings.Contains(string(raw), `"d"`) {
			t.Error("a private key is published")
		}
	})

	t.Run("90 days, if nothing is said", func(t *testing.T) {
		t.Parallel()
		token, _ := f.issue(t, tenant.TokenSpec{Role: "viewer"})
		if d := token.ExpiresAt.Sub(f.clock.Now()).Round(time.Minute); d != 90*24*time.Hour {
			t.Errorf("it lives for %v", d)
		}
	})

	t.Run("what makes no sense is refused by name", func(t *testing.T) {
		t.Parallel()
		acme := f.acme.ID
		for _, c := range []struct {
			field, code string
			spec        tenant.TokenSpec
		}{
			{"name", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Role: "viewer"}},
			{"subject", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Subject: "a\nb", Role: "viewer"}},
			{"scopes", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a"}},
			{"scopes/1", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Scopes: []string{"events:write", "events:*"}}},
			{"scopes/0", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Scopes: []string{"admin:read"}}},
			{"scopes/0", tenant.CodeInvalid, tenant.TokenSpec{Admin: true, Name: "a", Scopes: []string{"events:write"}}},
			{"role", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Role: "operator"}},
			{"role", tenant.CodeInvalid, tenant.TokenSpec{Admin: true, Name: "a", Role: "owner"}},
			{"role", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Role: "viewer", Scopes: []string{"events:write"}}},
			{"tenant", tenant.CodeInvalid, tenant.TokenSpec{Name: "a", Role: "viewer"}},
			{"tenant", tenant.CodeInvalid, tenant.TokenSpec{Admin: true, Tenant: acme, Name: "a", Role: "operator"}},
			{"expires_in_seconds", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Role: "viewer", Lifetime: time.Second}},
			{"expires_in_seconds", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Role: "viewer", Lifetime: -time.Hour}},
			{"expires_in_seconds", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Role: "viewer", Lifetime: 366*24*time.Hour + time.Second}},
			{"event_scopes", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Role: "viewer", EventScopes: []string{}}},
			{"event_scopes/1", tenant.CodeGlob, tenant.TokenSpec{Tenant: acme, Name: "a", Role: "viewer", EventScopes: []string{"a", "b.c"}}},
			{"event_scopes", tenant.CodeInvalid, tenant.TokenSpec{Admin: true, Name: "a", Role: "operator", EventScopes: []string{"a"}}},
			{"event_scopes", tenant.CodeInvalid, tenant.TokenSpec{Tenant: acme, Name: "a", Role: "viewer", EventScopes: longScopes()}},
		} {
			_, text, err := f.authority.Issue(ctx, c.spec)
			var e *tenant.Invalid
			if !errors.As(err, &e) || e.Field != c.field || e.Code != c.code || text != "" {
				t.Errorf("%+v: %v; want %s %s", c.spec, err, c.code, c.field)
			}
		}
	})

	t.Run("there is no token for a tenant that is not there", func(t *testing.T) {
		t.Parallel()
		_, _, err := f.authority.Issue(ctx, tenant.TokenSpec{Tenant: uuid.New(), Name: "a", Role: "viewer"})
		if !errors.Is(err, tenant.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNoTokenGrantsMoreThanItHolds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, text := f.issue(t, tenant.TokenSpec{Subject: "kim", Scopes: []string{"tokens:write", "events:read", "deliveries:read"}, EventScopes: []string{"project/42/**"}})
	kim := accepted(t, f.authority, text)
	_, text = f.issue(t, tenant.TokenSpec{Admin: true, Scopes: []string{"admin:tenants"}})
	operator := accepted(t, f.authority, text)

	for _, c := range []struct {
		name  string
		by    tenant.Caller
		spec  tenant.TokenSpec
		field string // empty: granted
	}{
		{"a part of both", kim, tenant.TokenSpec{Scopes: []string{"events:read"}, EventScopes: []string{"project/42/draft"}}, ""},
		{"another scope", kim, tenant.TokenSpec{Scopes: []string{"events:read", "events:write"}}, "scopes"},
		{"a role with another scope", kim, tenant.TokenSpec{Role: "viewer"}, "scopes"},
		{"a wider event scope", kim, tenant.TokenSpec{Scopes: []string{"events:read"}, EventScopes: []string{"project/*/draft"}}, "event_scopes"},
		{"all events", kim, tenant.TokenSpec{Scopes: []string{"events:read"}, EventScopes: []string{"**"}}, "event_scopes"},
		{"an operator, to a tenant", operator, tenant.TokenSpec{Role: "owner"}, ""},
		{"an operator, to an operator", operator, tenant.TokenSpec{Admin: true, Scopes: []string{"admin:tenants"}}, ""},
		{"an operator, more than it holds", operator, tenant.TokenSpec{Admin: true, Role: "operator"}, "scopes"},
		{"a tenant, to an operator", kim, tenant.TokenSpec{Admin: true, Scopes: []string{"admin:read"}}, "scopes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.spec.Name, c.spec.By = "a", &c.by
			if !c.spec.Admin {
				c.spec.Tenant = f.acme.ID
			}
			token, _, err := f.authority.Issue(t.Context(), c.spec)
			var e *tenant.Invalid
			switch {
			case c.field == "" && (err != nil || *token.CreatedBy != c.by.Subject):
				t.Errorf("got %+v, %v", token, err)
			case c.field != "" && (!errors.As(err, &e) || e.Field != c.field || e.Code != tenant.CodeNotGrantable):
				t.Errorf("got %v", err)
			}
		})
	}

	t.Run("event scopes that are left out are those of the token that asks", func(t *testing.T) {
		t.Parallel()
		token, text := f.issue(t, tenant.TokenSpec{Scopes: []string{"events:read"}, By: &kim})
		if want := []string{"project/42/**"}; !slices.Equal(token.EventScopes, want) || !slices.Equal(accepted(t, f.authority, text).EventScopes, want) {
			t.Errorf("got %q", token.EventScopes)
		}
	})
}

func TestRoles(t *testing.T) {
	t.Parallel()
	for _, admin := range []bool{false, true} {
		for _, role := range tenant.Roles(admin) {
			if len(tenant.ScopesOf(role, admin)) == 0 || tenant.ScopesOf(role, !admin) != nil {
				t.Errorf("the role %s is not what it should be", role)
			}
		}
	}
	for _, role := range []string{"viewer", "support"} {
		for _, s := range tenant.ScopesOf(role, false) {
			if s == "payloads:read" || strings.HasSuffix(s, ":write") {
				t.Errorf("%s holds %s", role, s)
			}
		}
	}
}

func TestListAndGetTokens(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	other, err := f.tenants.Create(ctx, tenant.Spec{Name: "Other"})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		f.issue(t, tenant.TokenSpec{Role: "viewer"})
	}
	theirs, _ := f.issue(t, tenant.TokenSpec{Tenant: other.ID, Role: "viewer"})
	admins, _ := f.issue(t, tenant.TokenSpec{Admin: true, Role: "operator"})

	page, more, err := f.authority.List(ctx, tenant.TokenQuery{Tenant: f.acme.ID, Limit: 3})
	if err != nil || len(page) != 3 || !more {
		t.Fatalf("the first page: %d, %v, %v", len(page), more, err)
	}
	rest, more, err := f.authority.List(ctx, tenant.TokenQuery{Tenant: f.acme.ID, Limit: 3, Before: page[2].ID})
	if err != nil || len(rest) != 2 || more {
		t.Fatalf("the second page: %d, %v, %v", len(rest), more, err)
	}
	for _, token := range append(page, rest...) {
		if *token.Tenant != f.acme.ID {
			t.Errorf("another tenant's token %v", token.ID)
		}
	}
	operators, _, err := f.authority.List(ctx, tenant.TokenQuery{})
	if err != nil || len(operators) != 1 || operators[0].ID != admins.ID {
		t.Errorf("the operators' tokens: %+v, %v", operators, err)
	}
	if got, err := f.authority.Get(ctx, f.acme.ID, page[0].ID); err != nil || got.ID != page[0].ID {
		t.Errorf("Get: %+v, %v", got, err)
	}
	for _, id := range []uuid.UUID{theirs.ID, admins.ID, uuid.New()} {
		if _, err := f.authority.Get(ctx, f.acme.ID, id); !errors.Is(err, tenant.ErrNotFound) {
			t.Errorf("a foreign or unknown token: %v", err)
		}
	}
}

func TestEnsureKey(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if _, err := f.pool.Exec(t.Context(), `delete from gateway.auth_keys`); err != nil {
		t.Fatal(err)
	}

	t.Run("of processes that start at once, one makes the key", func(t *testing.T) {
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() { errs[i] = f.another().EnsureKey(t.Context()) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := f.pool.QueryRow(t.Context(), `select count(*) from gateway.auth_keys`).Scan(&n); err != nil || n != 1 {
			t.Errorf("%d keys, %v", n, err)
		}
	})

	t.Run("the key ring is tried", func(t *testing.T) {
		stranger := tenant.NewAuthority(tenant.AuthorityConfig{Pool: f.pool, Keyring: keyring(t)})
		if err := stranger.EnsureKey(t.Context()); !errors.Is(err, signing.ErrSealBroken) && !errors.Is(err, signing.ErrUnknownKey) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("the private key is stored sealed, and to its public half", func(t *testing.T) {
		var sealed []byte
		if err := f.pool.QueryRow(t.Context(), `select private_key from gateway.auth_keys`).Scan(&sealed); err != nil || len(sealed) <= 32 {
			t.Errorf("%d bytes, %v", len(sealed), err)
		}
		if _, err := f.pool.Exec(t.Context(), `update gateway.auth_keys set public_key = decode(repeat('00', 32), 'hex')`); err != nil {
			t.Fatal(err)
		}
		if err := f.authority.EnsureKey(t.Context()); !errors.Is(err, signing.ErrSealBroken) {
			t.Errorf("with another public half: %v", err)
		}
	})
}

// longScopes would make a token longer than any server takes.
func longScopes() []string {
	var list []string
	for i := range 50 {
		list = append(list, fmt.Sprintf("%s/%d", strings.Repeat("a", 120), i))
	}
	return list
}

func decode(t *testing.T, text string) (header, claims map[string]any) {
	t.Helper()
	for i, part := range strings.Split(text, ".")[:2] {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err == nil {
			err = json.Unmarshal(raw, []any{&header, &claims}[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return header, claims
}
