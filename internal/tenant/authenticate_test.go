package tenant_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

func TestTextsThatAreNoTokens(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, good := f.issue(t, tenant.TokenSpec{Role: "viewer"})

	refused(t, f.authority, "", tenant.ErrTokenMissing)
	for name, text := range map[string]string{
		"a word":               "letmein",
		"dots":                 strings.Repeat(".", 100),
		"8 KiB of dots":        strings.Repeat(".", 8<<10),
		"two parts":            good[:strings.LastIndex(good, ".")],
		"four parts":           good + ".a",
		"a space behind":       good + " ",
		"a line behind":        good + "\n",
		"a line within":        strings.Replace(good, ".", "\r\n.", 1),
		"the scheme twice":     "Bearer " + good,
		"padding":              good + "=",
		"one byte too many":    strings.Repeat("a", 8<<10+1),
		"a signature cut":      good[:len(good)-4],
		"no signature":         good[:strings.LastIndex(good, ".")+1],
		"stray bits at last":   good[:len(good)-1] + otherLast(good),
		"the alphabet of MIME": strings.Replace(good, ".", "+/.", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, f.authority, text, tenant.ErrTokenMalformed)
		})
	}

	t.Run("a secret is recognised", func(t *testing.T) {
		t.Parallel()
		e := refused(t, f.authority, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", tenant.ErrTokenMalformed)
		if !strings.Contains(e.Detail, "signing secret") || strings.Contains(e.Detail, "MfKQ") {
			t.Errorf("it says %q", e.Detail)
		}
	})
	t.Run("a token's id is recognised", func(t *testing.T) {
		t.Parallel()
		e := refused(t, f.authority, "tok_01k9b3tszkf2r8n4q6w0y5t1ve", tenant.ErrTokenMalformed)
		if !strings.Contains(e.Detail, "id of a token") {
			t.Errorf("it says %q", e.Detail)
		}
	})
}

// otherLast changes bits of the last character that a lax decoder drops: 64 bytes fill 85 characters and a third.
func otherLast(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, token[len(token)-1])|1])
}

// 500 kB of dots once cost a library as much again for each dot.
func TestLongTextsCostNothing(t *testing.T) { // not parallel: it counts the process's allocations
	a := tenant.NewAuthority(tenant.AuthorityConfig{})
	for _, text := range []string{strings.Repeat(".", 500_000), strings.Repeat(".", 8<<10), strings.Repeat("a.", 4<<10), strings.Repeat("a", 3<<10) + "." + strings.Repeat("b", 3<<10) + ".c"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			if _, err := a.Authenticate(t.Context(), text); !errors.Is(err, tenant.ErrTokenMalformed) {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 16<<10 {
			t.Errorf("%d bytes for %d bytes of text", each, len(text))
		}
	}
}

func TestForgedTokens(t *testing.T) {
	t.Parallel()
	f := setup(t)
	g := newForger(t, f)
	good := g.sign(t, nil, g.claims(nil))
	accepted(t, f.authority, good)
	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString

	t.Run("algorithms", func(t *testing.T) {
		t.Parallel()
		public := g.private.Public().(ed25519.PublicKey)
		hmac := jwt.NewWithClaims(jwt.SigningMethodHS256, g.claims(nil))
		hmac.Header["kid"] = "forged"
		confused, err := hmac.SignedString([]byte(public))
		if err != nil {
			t.Fatal(err)
		}
		refused(t, f.authority, confused, tenant.ErrTokenMalformed)
		for _, alg := range []string{"none", "None", "nOnE", "NONE", "", "HS256", "RS256", "ES256", "PS512", "eddsa", "Ed25519"} {
			header := fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":"forged"}`, alg)
			refused(t, f.authority, g.signRaw(header, string(claimsOf(t, good))), tenant.ErrTokenMalformed)
			refused(t, f.authority, encode([]byte(header))+"."+parts[1]+".", tenant.ErrTokenMalformed)
		}
	})

	t.Run("headers that are junk", func(t *testing.T) {
		t.Parallel()
		for _, header := range []string{
			`{}`, `[]`, `null`, `"EdDSA"`, `1`, ``, `{`, `{"alg":"EdDSA"}`, `{"alg":["EdDSA"],"kid":"forged"}`, `{"alg":null,"kid":"forged"}`,
			`{"alg":"EdDSA","kid":1}`, `{"alg":"EdDSA","kid":""}`, `{"alg":"EdDSA","kid":["forged"]}`, `{"alg":"EdDSA","kid":"forged","crit":["b64"],"b64":false}`,
			strings.Repeat(`[`, 5000), `{"a":` + strings.Repeat(`{"a":`, 800) + `1` + strings.Repeat(`}`, 800) + `}`, "\xff\xfe", `{"alg":"EdDSA","kid":"forged"}}`,
		} {
			refused(t, f.authority, g.signRaw(header, string(claimsOf(t, good))), tenant.ErrTokenMalformed)
		}
	})

	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		refused(t, f.authority, g.sign(t, map[string]any{"kid": "forged'; drop table gateway.tokens; --"}, g.claims(nil)), tenant.ErrTokenUnknownKey)
		refused(t, f.authority, g.sign(t, map[string]any{"kid": "FORGED"}, g.claims(nil)), tenant.ErrTokenUnknownKey)
		_, stranger, _ := ed25519.GenerateKey(nil)
		other := &forger{f, stranger, g.token}
		refused(t, f.authority, other.sign(t, nil, g.claims(nil)), tenant.ErrTokenMalformed)
		// A key of the token's own is not listened to.
		refused(t, f.authority, other.sign(t, map[string]any{"jwk": map[string]string{"kty": "OKP", "crv": "Ed25519",
			"x": encode(stranger.Public().(ed25519.PublicKey))}}, g.claims(nil)), tenant.ErrTokenMalformed)
	})

	t.Run("changed", func(t *testing.T) {
		t.Parallel()
		more := encode([]byte(strings.Replace(string(claimsOf(t, good)), "events:read", "tokens:write", 1)))
		refused(t, f.authority, parts[0]+"."+more+"."+parts[2], tenant.ErrTokenMalformed)
		other := g.sign(t, nil, g.claims(map[string]any{"scope": "tokens:write"}))
		refused(t, f.authority, strings.Join([]string{parts[0], strings.Split(other, ".")[1], parts[2]}, "."), tenant.ErrTokenMalformed)
	})
}

func TestClaims(t *testing.T) {
	t.Parallel()
	f := setup(t)
	g := newForger(t, f)
	now := f.clock.Now().Unix()
	other := typeid.Format(typeid.Tenant, uuid.New())

	for _, c := range []struct {
		name    string
		changes map[string]any
		want    error // nil: accepted
	}{
		{"as they should be", nil, nil},
		{"an audience in a list", map[string]any{"aud": []string{"gateway-api"}}, nil},
		{"unknown claims are nothing to us", map[string]any{"foo": map[string]any{"bar": 1}}, nil},
		{"no nbf", map[string]any{"nbf": nil}, nil},

		{"no exp", map[string]any{"exp": nil}, tenant.ErrTokenMalformed},
		{"exp null", map[string]any{"exp": raw("null")}, tenant.ErrTokenMalformed},
		{"exp in a string", map[string]any{"exp": fmt.Sprint(now + 3600)}, tenant.ErrTokenMalformed},
		{"exp as a fraction", map[string]any{"exp": float64(now+3600) + 0.5}, tenant.ErrTokenMalformed},
		{"exp with an exponent", map[string]any{"exp": raw("4e9")}, tenant.ErrTokenMalformed},
		{"exp negative", map[string]any{"exp": -1}, tenant.ErrTokenMalformed},
		{"exp 0", map[string]any{"exp": 0}, tenant.ErrTokenExpired},
		{"exp 10^12", map[string]any{"exp": 1_000_000_000_000}, tenant.ErrTokenMalformed},
		{"exp beyond all numbers", map[string]any{"exp": raw(strings.Repeat("9", 400))}, tenant.ErrTokenMalformed},
		{"a lifetime of 366 days", map[string]any{"exp": now + 366*86400}, nil},
		{"a lifetime of a second more", map[string]any{"exp": now + 366*86400 + 1}, tenant.ErrTokenMalformed},
		{"a lifetime made long by iat", map[string]any{"iat": 0}, tenant.ErrTokenMalformed},
		{"exp before iat", map[string]any{"iat": now, "exp": now - 1}, tenant.ErrTokenMalformed},
		{"no iat", map[string]any{"iat": nil}, tenant.ErrTokenMalformed},
		{"iat in a string", map[string]any{"iat": "0"}, tenant.ErrTokenMalformed},

		{"exp 10 s ago", map[string]any{"iat": now - 100, "exp": now - 10}, nil},
		{"exp 60 s ago", map[string]any{"iat": now - 100, "exp": now - 60}, tenant.ErrTokenExpired},
		{"iat and nbf 10 s ahead", map[string]any{"iat": now + 10, "nbf": now + 10}, nil},
		{"iat 10 min ahead", map[string]any{"iat": now + 600}, tenant.ErrTokenNotYetValid},
		{"nbf 10 min ahead", map[string]any{"nbf": now + 600}, tenant.ErrTokenNotYetValid},

		{"no iss", map[string]any{"iss": nil}, tenant.ErrTokenMalformed},
		{"another iss", map[string]any{"iss": "sallyport.example"}, tenant.ErrTokenWrongIssuer},
		{"no aud", map[string]any{"aud": nil}, tenant.ErrTokenMalformed},
		{"aud empty", map[string]any{"aud": []string{}}, tenant.ErrTokenMalformed},
		{"another aud", map[string]any{"aud": "gateway"}, tenant.ErrTokenWrongAudience},
		{"both auds", map[string]any{"aud": []string{"gateway-api", "gateway-admin"}}, tenant.ErrTokenMalformed},
		{"no sub", map[string]any{"sub": nil}, tenant.ErrTokenMalformed},

		{"no tenant", map[string]any{"ten": nil}, tenant.ErrTokenMalformed},
		{"a tenant that is none", map[string]any{"ten": "acme"}, tenant.ErrTokenMalformed},
		{"the nil tenant", map[string]any{"ten": typeid.Format(typeid.Tenant, uuid.Nil)}, tenant.ErrTokenMalformed},
		{"an operator's with a tenant", map[string]any{"aud": "gateway-admin"}, tenant.ErrTokenMalformed},
		{"a tenant's as an operator's", map[string]any{"aud": "gateway-admin", "ten": nil, "scope": "admin:tenants"}, tenant.ErrTokenRevoked},
		{"another tenant's", map[string]any{"ten": other}, tenant.ErrTokenRevoked},
		{"no jti", map[string]any{"jti": nil}, tenant.ErrTokenMalformed},
		{"a jti of another kind", map[string]any{"jti": other}, tenant.ErrTokenMalformed},
		{"a jti without a row", map[string]any{"jti": typeid.Format(typeid.Token, uuid.New())}, tenant.ErrTokenRevoked},
		{"scope in a list", map[string]any{"scope": []string{"events:write"}}, tenant.ErrTokenMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := g.sign(t, nil, g.claims(c.changes))
			for range 2 { // the second time its signature is remembered
				if c.want == nil {
					accepted(t, f.authority, text)
				} else {
					refused(t, f.authority, text, c.want)
				}
			}
		})
	}

	t.Run("no scope at all allows nothing", func(t *testing.T) {
		t.Parallel()
		if got := accepted(t, f.authority, g.sign(t, nil, g.claims(map[string]any{"scope": nil}))); len(got.Scopes) != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("no event scopes are not all", func(t *testing.T) {
		t.Parallel()
		got := accepted(t, f.authority, g.sign(t, nil, g.claims(map[string]any{"evs": []string{}})))
		if got.EventScopes == nil || got.MayGrant([]string{"a"}) || got.MayGrant(nil) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("claims that are no object", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{`[]`, `null`, `1`, ``, `"a"`, `{"exp":`} {
			refused(t, f.authority, g.signRaw(`{"alg":"EdDSA","kid":"forged"}`, text), tenant.ErrTokenMalformed)
		}
	})
}

func TestExpiryTells(t *testing.T) {
	t.Parallel()
	f := setup(t)
	token, text := f.issue(t, tenant.TokenSpec{Role: "viewer", Lifetime: time.Hour})
	accepted(t, f.authority, text)
	f.clock.turn(time.Hour + 29*time.Second)
	accepted(t, f.authority, text)
	f.clock.turn(2 * time.Second)
	e := refused(t, f.authority, text, tenant.ErrTokenExpired)
	if !e.At.Equal(token.ExpiresAt) || !e.ServerTime.Equal(f.clock.Now().Truncate(time.Second)) {
		t.Errorf("it tells %v and %v", e.At, e.ServerTime)
	}
	for _, part := range []string{e.At.Format(time.RFC3339), e.ServerTime.Format(time.RFC3339)} {
		if !strings.Contains(e.Detail, part) {
			t.Errorf("%q lacks %s", e.Detail, part)
		}
	}
}

func TestRevocation(t *testing.T) {
	t.Parallel()

	t.Run("is in force at once here, with the notification elsewhere, and after 30 s without", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		token, text := f.issue(t, tenant.TokenSpec{Role: "viewer"})
		told, deaf := f.another(), f.another()
		for _, a := range []*tenant.Authority{f.authority, told, deaf} {
			accepted(t, a, text)
		}
		heard := f.listen(t)
		if err := f.authority.Revoke(t.Context(), tenant.Caller{Tenant: f.acme.ID}, token.ID); err != nil {
			t.Fatal(err)
		}
		refused(t, f.authority, text, tenant.ErrTokenRevoked)

		accepted(t, told, text)
		told.Invalidate(heard())
		refused(t, told, text, tenant.ErrTokenRevoked)

		f.clock.turn(29 * time.Second)
		accepted(t, deaf, text)
		f.clock.turn(2 * time.Second)
		refused(t, deaf, text, tenant.ErrTokenRevoked)
	})

	t.Run("is for good, and its time is that of the first", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		token, _ := f.issue(t, tenant.TokenSpec{Role: "viewer"})
		var first time.Time
		for range 2 {
			if err := f.authority.Revoke(t.Context(), tenant.Caller{Admin: true}, token.ID); err != nil {
				t.Fatal(err)
			}
			got, err := f.authority.Get(t.Context(), f.acme.ID, token.ID)
			if err != nil || got.RevokedAt == nil {
				t.Fatalf("got %+v, %v", got, err)
			}
			if !first.IsZero() && !first.Equal(*got.RevokedAt) {
				t.Errorf("revoked at %v and %v", first, got.RevokedAt)
			}
			first = *got.RevokedAt
		}
	})

	t.Run("is nobody else's", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		token, text := f.issue(t, tenant.TokenSpec{Role: "viewer"})
		operators, _ := f.issue(t, tenant.TokenSpec{Admin: true, Role: "operator"})
		for name, err := range map[string]error{
			"another tenant":       f.authority.Revoke(t.Context(), tenant.Caller{Tenant: uuid.New()}, token.ID),
			"nobody":               f.authority.Revoke(t.Context(), tenant.Caller{}, operators.ID),
			"an operator's":        f.authority.Revoke(t.Context(), tenant.Caller{Tenant: f.acme.ID}, operators.ID),
			"one that isn't there": f.authority.Revoke(t.Context(), tenant.Caller{Tenant: f.acme.ID}, uuid.New()),
		} {
			if !errors.Is(err, tenant.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		accepted(t, f.authority, text)
	})

	t.Run("of all of a tenant's tokens by its epoch", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		_, text := f.issue(t, tenant.TokenSpec{Role: "viewer"})
		if _, err := f.pool.Exec(t.Context(), `update gateway.tenants set token_epoch = clock_timestamp() where id = $1`, f.acme.ID); err != nil {
			t.Fatal(err)
		}
		refused(t, f.authority, text, tenant.ErrTokenRevoked)
		_, text = f.issue(t, tenant.TokenSpec{Role: "viewer"})
		accepted(t, f.authority, text)
	})

	t.Run("of a key", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		g := newForger(t, f)
		text := g.sign(t, nil, g.claims(nil))
		accepted(t, f.authority, text)
		if _, err := f.pool.Exec(t.Context(), `update gateway.auth_keys set state = 'retired' where kid = 'forged'`); err != nil {
			t.Fatal(err)
		}
		accepted(t, f.authority, text)
		f.authority.Invalidate("key forged")
		refused(t, f.authority, text, tenant.ErrTokenUnknownKey)
	})
}

func TestASuspendedTenant(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, text := f.issue(t, tenant.TokenSpec{Role: "owner"})
	if accepted(t, f.authority, text).Suspended {
		t.Error("suspended from the start")
	}
	heard := f.listen(t)
	if _, err := f.tenants.Update(t.Context(), f.acme.ID, tenant.Patch{State: tenant.To(tenant.Suspended)}, nil); err != nil {
		t.Fatal(err)
	}
	f.authority.Invalidate(heard())
	if !accepted(t, f.authority, text).Suspended {
		t.Error("not suspended")
	}
	if _, err := f.pool.Exec(t.Context(), `update gateway.tenants set deleted_at = now() where id = $1`, f.acme.ID); err != nil {
		t.Fatal(err)
	}
	f.authority.Invalidate("")
	refused(t, f.authority, text, tenant.ErrTokenRevoked)
}

func TestNotificationsOfOtherThings(t *testing.T) {
	t.Parallel()
	a := tenant.NewAuthority(tenant.AuthorityConfig{})
	for _, payload := range []string{"", "endpoint " + uuid.NewString(), "token", "token x", "tenant ", "bogus", " ", "key", strings.Repeat("a", 8000)} {
		a.Invalidate(payload) // it does not panic
	}
}

// With the database away a token is relied on for as long as a revocation may take, and then it is not the token's
// fault.
func TestTheDatabaseAway(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, text := f.issue(t, tenant.TokenSpec{Role: "viewer"})
	accepted(t, f.authority, text)
	gone, cancel := context.WithCancel(t.Context())
	cancel() // a database that answers nothing
	if _, err := f.authority.Authenticate(gone, text); err != nil {
		t.Errorf("within 30 s: %v", err)
	}
	f.clock.turn(31 * time.Second)
	_, err := f.authority.Authenticate(gone, text)
	var e *tenant.TokenError
	if err == nil || errors.As(err, &e) {
		t.Errorf("after 30 s: %v", err)
	}
	accepted(t, f.authority, text)
}

func TestUnknownKeysCostOneReadASecond(t *testing.T) {
	t.Parallel()
	f := setup(t)
	g := newForger(t, f)
	accepted(t, f.authority, g.sign(t, nil, g.claims(nil)))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	text := g.sign(t, map[string]any{"kid": "unheard"}, g.claims(nil))
	for range 10 {
		if _, err := f.authority.Authenticate(gone, text); !errors.Is(err, tenant.ErrTokenUnknownKey) {
			t.Fatalf("it read: %v", err)
		}
	}
	f.clock.turn(2 * time.Second)
	if _, err := f.authority.Authenticate(gone, text); errors.Is(err, tenant.ErrTokenUnknownKey) {
		t.Error("after a second it does not look again")
	}
}

func TestLastUse(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	one, oneText := f.issue(t, tenant.TokenSpec{Role: "viewer"})
	two, twoText := f.issue(t, tenant.TokenSpec{Admin: true, Role: "operator"})
	lastUse := func(id uuid.UUID) *time.Time {
		t.Helper()
		var at *time.Time
		if err := f.pool.QueryRow(ctx, `select last_used_at from gateway.tokens where id = $1`, id).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	accepted(t, f.authority, oneText)
	first := lastUse(one.ID)
	if first == nil {
		t.Fatal("the first use is not written down")
	}
	accepted(t, f.authority, oneText)
	accepted(t, f.authority, twoText)
	if got := lastUse(one.ID); !got.Equal(*first) || lastUse(two.ID) != nil {
		t.Error("a use is written down before a minute is over")
	}
	f.clock.turn(time.Minute)
	accepted(t, f.authority, oneText)
	if !lastUse(one.ID).After(*first) || lastUse(two.ID) == nil {
		t.Error("after a minute not all uses are written down")
	}
	if !lastUse(two.ID).Before(*lastUse(one.ID)) {
		t.Error("a use of a minute ago is written down as one of now")
	}
	before := lastUse(two.ID)
	accepted(t, f.authority, twoText)
	if err := f.authority.Flush(ctx); err != nil || !lastUse(two.ID).After(*before) {
		t.Errorf("the end of the process leaves a use out: %v", err)
	}
}

func TestAuthenticateAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	token, text := f.issue(t, tenant.TokenSpec{Role: "viewer"})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := f.authority.Authenticate(t.Context(), text); err != nil && !errors.Is(err, tenant.ErrTokenRevoked) {
					t.Error(err)
				}
				f.authority.Invalidate("token " + token.ID.String())
			}
		})
	}
	if err := f.authority.Revoke(t.Context(), tenant.Caller{Admin: true}, token.ID); err != nil {
		t.Error(err)
	}
	wg.Wait()
	refused(t, f.authority, text, tenant.ErrTokenRevoked)
}

func FuzzAuthenticate(f *testing.F) {
	a := tenant.NewAuthority(tenant.AuthorityConfig{})
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJFZERTQSJ9.e30.AA")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, text string) {
		first, _, _ := strings.Cut(text, ".")
		if raw, err := base64.RawURLEncoding.DecodeString(first); err == nil {
			var header map[string]any
			if json.Unmarshal(raw, &header) == nil && header["kid"] != nil {
				return // it would read the keys, and there is no database here
			}
		}
		_, err := a.Authenticate(t.Context(), text)
		var e *tenant.TokenError
		if !errors.As(err, &e) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// listen returns what is told on the channel next.
func (f *fixture) listen(t *testing.T) func() string {
	t.Helper()
	conn, err := f.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	if _, err := conn.Exec(t.Context(), "listen "+tenant.Channel); err != nil {
		t.Fatal(err)
	}
	return func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n, err := conn.Conn().WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return n.Payload
	}
}

type raw string

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func claimsOf(t *testing.T, text string) []byte {
	t.Helper()
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return claims
}
