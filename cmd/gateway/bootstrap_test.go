package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

// operatorsDesk is a migrated database and a key ring, as an environment.
func operatorsDesk(t *testing.T) []string {
	t.Helper()
	keys := strings.TrimSpace(command(t, nil, "keys", "generate").stdout)
	return []string{"DATABASE_URL=" + postgrestest.NewURL(t), "GATEWAY_SECRET_KEYS=" + keys}
}

// must runs a command that is to succeed and returns its data.
func must(t *testing.T, env []string, args ...string) string {
	t.Helper()
	got := command(t, env, args...)
	if got.code != 0 {
		t.Fatalf("gateway %s: exit %d\n%s", strings.Join(args, " "), got.code, got.stderr)
	}
	return strings.TrimSpace(got.stdout)
}

// fields reads JSON data.
func fields(t *testing.T, data string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return m
}

func TestTenants(t *testing.T) {
	t.Parallel()
	env := operatorsDesk(t)
	made := fields(t, must(t, env, "tenant", "create", "Acme Ltd", "--uid", "acme", "--metadata", "plan=gold", "--json"))
	id, _ := made["id"].(string)
	if !strings.HasPrefix(id, "ten_") || made["uid"] != "acme" || made["name"] != "Acme Ltd" || made["state"] != "active" {
		t.Errorf("made %v", made)
	}
	for _, ref := range []string{id, "uid:acme"} {
		if got := fields(t, must(t, env, "tenant", "get", ref, "--json")); got["id"] != id {
			t.Errorf("get %s found %v", ref, got)
		}
	}
	if got := fields(t, must(t, env, "tenant", "suspend", "uid:acme", "--json")); got["state"] != "suspended" || got["suspended_at"] == nil {
		t.Errorf("suspended: %v", got)
	}
	if got := fields(t, must(t, env, "tenant", "resume", id, "--json")); got["state"] != "active" {
		t.Errorf("resumed: %v", got)
	}
	must(t, env, "tenant", "create", "Bolt")
	if lines := strings.Split(must(t, env, "tenant", "list"), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "Bolt") || !strings.Contains(lines[2], "Acme Ltd") {
		t.Errorf("list, the newest first, with a head:\n%s", strings.Join(lines, "\n"))
	}
	if got := command(t, env, "tenant", "list", "--limit", "1"); !strings.Contains(got.stderr, "There are more") {
		t.Errorf("a list that was cut does not say so: %q", got.stderr)
	}

	refused := map[string]struct {
		args []string
		code int
		want string
	}{
		"a uid that is taken":   {[]string{"tenant", "create", "Again", "--uid", "acme"}, 1, `another tenant has the uid "acme"`},
		"a uid that is none":    {[]string{"tenant", "create", "Again", "--uid", "a b"}, 2, "uid: "},
		"no name":               {[]string{"tenant", "create", ""}, 2, "name: "},
		"a tenant of nobody":    {[]string{"tenant", "get", "uid:nobody"}, 1, "there is no tenant uid:nobody"},
		"an id of another":      {[]string{"tenant", "get", "evt_01k9b3vc4tf7a9q3nz5m8r2x6d"}, 2, "is neither a tenant's id"},
		"a limit of nothing":    {[]string{"tenant", "list", "--limit", "0"}, 2, "--limit must be 1 or more"},
		"suspending what's not": {[]string{"tenant", "suspend", "uid:nobody"}, 1, "there is no tenant"},
	}
	for name, test := range refused {
		if got := command(t, env, test.args...); got.code != test.code || !strings.Contains(got.stderr, test.want) || got.stdout != "" {
			t.Errorf("%s: exit %d, %q, want %d, %q", name, got.code, got.stderr, test.code, test.want)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	env := operatorsDesk(t)
	must(t, env, "tenant", "create", "Acme", "--uid", "acme")

	t.Run("an operator's needs nothing but --admin", func(t *testing.T) {
		t.Parallel()
		text := must(t, env, "token", "create", "--admin")
		if strings.Count(text, ".") != 2 || strings.ContainsAny(text, " \n") {
			t.Fatalf("data is %q, want the token alone", text)
		}
		got := fields(t, must(t, env, "token", "inspect", text, "--json"))
		if got["kind"] != "operator" || got["audience"].([]any)[0] != "gateway-admin" || got["tenant_id"] != nil {
			t.Errorf("inspected: %v", got)
		}
	})
	t.Run("a tenant's speaks for it", func(t *testing.T) {
		t.Parallel()
		made := fields(t, must(t, env, "token", "create", "--tenant", "uid:acme", "--scope", "events:write", "--event-scope", "project/*", "--name", "shop", "--expires", "1h", "--json"))
		text, _ := made["token"].(string)
		got := commandIn(t, "  Bearer "+text+"\n", env, "token", "inspect", "--json")
		in := fields(t, got.stdout)
		if in["kind"] != "tenant" || in["id"] != made["id"] || in["tenant_id"] != made["tenant_id"] || in["subject"] != "shop" {
			t.Errorf("made %v\ninspected %v\n%s", made, in, got.stderr)
		}
		if !strings.Contains(must(t, env, "token", "list", "--tenant", "uid:acme"), made["id"].(string)) {
			t.Error("it is not listed")
		}
		if strings.Contains(must(t, env, "token", "list"), made["id"].(string)) {
			t.Error("it is listed as an operator's")
		}
		must(t, env, "token", "revoke", made["id"].(string))
		if list := must(t, env, "token", "list", "--tenant", "uid:acme"); !strings.Contains(list, "revoked") {
			t.Errorf("it is not listed as revoked:\n%s", list)
		}
	})
	refused := map[string]struct {
		args []string
		code int
		want string
	}{
		"for nobody":              {[]string{"token", "create", "--role", "owner"}, 2, "(--admin) or a tenant's (--tenant)"},
		"for both":                {[]string{"token", "create", "--admin", "--tenant", "uid:acme"}, 2, "(--admin) or a tenant's (--tenant)"},
		"that may do nothing":     {[]string{"token", "create", "--tenant", "uid:acme"}, 2, "scopes: "},
		"of an unknown role":      {[]string{"token", "create", "--tenant", "uid:acme", "--role", "king"}, 2, "role: "},
		"of an operator's scope":  {[]string{"token", "create", "--tenant", "uid:acme", "--scope", "admin:read"}, 2, "scopes: "},
		"for ever":                {[]string{"token", "create", "--admin", "--expires", "876000h"}, 2, "expires-in-seconds: "},
		"for a tenant of nobody":  {[]string{"token", "create", "--tenant", "uid:nobody", "--role", "owner"}, 1, "there is no tenant uid:nobody"},
		"revoked by its text":     {[]string{"token", "revoke", "eyJhbGciOiJFZERTQSJ9.e30.c2lnbmF0dXJl"}, 2, `"eyJhbGci…" is no token's id`},
		"revoked, but nobody's":   {[]string{"token", "revoke", "tok_01k9b3tszkf2r8n4q6w0y5t1ve"}, 1, "there is no token"},
		"without a ring to seal":  {[]string{"token", "create", "--admin", "--secret-keys-file", "/nowhere"}, 2, "SECRET_KEYS cannot be read"},
		"with a ring of nonsense": {[]string{"token", "create", "--admin", "--secret-keys", "topsecret"}, 2, "SECRET_KEYS cannot be used"},
	}
	for name, test := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := command(t, env, test.args...)
			if got.code != test.code || !strings.Contains(got.stderr, test.want) || got.stdout != "" || strings.Contains(got.stderr, "topsecret") {
				t.Errorf("exit %d, %q, want %d, %q", got.code, got.stderr, test.code, test.want)
			}
		})
	}
}

func TestInspectExplains(t *testing.T) {
	t.Parallel()
	// {"alg":"none"} and the like, without a signature that anybody could use.
	token := func(head, body string) string { return b64(head) + "." + b64(body) + ".c2ln" }
	const eddsa = `{"alg":"EdDSA","kid":"k1"}`
	tests := map[string]struct {
		text string
		code int
		want string
	}{
		"a secret of an endpoint":           {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 2, "the signing secret of an endpoint, not a token"},
		"the id of a token":                 {"tok_01k9b3tszkf2r8n4q6w0y5t1ve", 2, "the id of a token, not the token"},
		"nothing":                           {"", 2, "there is no token"},
		"a word":                            {"hello", 2, "it has 1 parts with dots between"},
		"cut":                               {"eyJhbGciOi.e30.c2ln", 2, "its first part cannot be read"},
		"expired":                           {token(eddsa, `{"iss":"sallyport","aud":"gateway-admin","exp":1,"scope":"admin:read"}`), 1, "it has expired at 1970-01-01"},
		"that never expires":                {token(eddsa, `{"iss":"sallyport","aud":"gateway-admin","scope":"admin:read"}`), 1, "it never expires"},
		"of another issuer":                 {token(eddsa, `{"iss":"them","aud":"gateway-admin","exp":9999999999,"scope":"admin:read"}`), 1, `from the issuer "them"`},
		"for another audience":              {token(eddsa, `{"iss":"sallyport","aud":["a","b"],"exp":9999999999,"scope":"admin:read"}`), 1, "it is meant for a, b"},
		"without a signature":               {token(`{"alg":"none"}`, `{"iss":"sallyport","aud":"gateway-admin","exp":9999999999,"scope":"admin:read"}`), 1, `signed with "none"`},
		"of a tenant that it does not name": {token(eddsa, `{"iss":"sallyport","aud":["gateway-api"],"exp":9999999999,"scope":"events:write"}`), 1, "names its tenant"},
		"good":                              {token(eddsa, `{"iss":"sallyport","aud":["gateway-api"],"ten":"ten_x","exp":9999999999,"scope":"events:write"}`), 0, "only the gateway knows"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := commandIn(t, test.text, nil, "token", "inspect"); got.code != test.code || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit %d, words %q, want %d, %q", got.code, got.stderr, test.code, test.want)
			}
		})
	}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	env := []string{"DATABASE_URL=" + postgrestest.NewURL(t)}
	if got := must(t, env, "migrate", "status"); strings.Contains("\n"+got, "\npending") || !strings.Contains(got, "gateway") || !strings.Contains(got, "river") {
		t.Errorf("status of a database that is up to date:\n%s", got)
	}
	must(t, env, "migrate", "down", "--yes")
	if got := command(t, env, "tenant", "list"); got.code != 1 || !strings.Contains(got.stderr, "Run `gateway migrate up`") {
		t.Errorf("without a schema: exit %d, %q", got.code, got.stderr)
	}
	if got := command(t, env, "migrate", "status"); got.code != 0 || !strings.Contains(got.stderr, "are pending") {
		t.Errorf("status: exit %d, %q", got.code, got.stderr)
	}
	if got := fields(t, must(t, env, "migrate", "up", "--json")); got["applied"].(float64) < 2 {
		t.Errorf("applied %v", got)
	}
	if got := fields(t, must(t, env, "migrate", "up", "--json")); got["applied"].(float64) != 0 {
		t.Errorf("applied %v the second time", got)
	}
	if got := command(t, env, "migrate", "up"); got.code != 0 || !strings.Contains(got.stderr, "up to date") {
		t.Errorf("for people: exit %d, %q", got.code, got.stderr)
	}
	must(t, env, "tenant", "list")
}
