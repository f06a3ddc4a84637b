package tenant_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// fixture is a gateway's tenants and tokens on a database of its own, with a tenant, its token, and a clock to turn.
type fixture struct {
	pool      *pgxpool.Pool
	ring      *signing.Keyring
	clock     *clock
	tenants   *tenant.Tenants
	authority *tenant.Authority
	acme      tenant.Tenant
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) turn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{pool: postgrestest.New(t), ring: keyring(t), clock: &clock{now: time.Now()}}
	f.tenants = tenant.NewTenants(f.pool)
	f.authority = f.another()
	if err := f.authority.EnsureKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	uid := "acme"
	var err error
	if f.acme, err = f.tenants.Create(t.Context(), tenant.Spec{Name: "Acme", UID: &uid, Metadata: map[string]string{"plan": "gold"}}); err != nil {
		t.Fatal(err)
	}
	return f
}

// another is the authority of another process.
func (f *fixture) another() *tenant.Authority {
	return tenant.NewAuthority(tenant.AuthorityConfig{Pool: f.pool, Keyring: f.ring, Now: f.clock.Now})
}

func (f *fixture) issue(t *testing.T, spec tenant.TokenSpec) (tenant.Token, string) {
	t.Helper()
	if spec.Name == "" {
		spec.Name = "test"
	}
	if !spec.Admin && spec.Tenant == uuid.Nil {
		spec.Tenant = f.acme.ID
	}
	token, text, err := f.authority.Issue(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return token, text
}

func keyring(t *testing.T) *signing.Keyring {
	t.Helper()
	key, err := signing.NewKey("test")
	if err != nil {
		t.Fatal(err)
	}
	ring, err := signing.ParseKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// forger signs what it is told to with a key that the gateway knows.
type forger struct {
	f       *fixture
	private ed25519.PrivateKey
	token   tenant.Token
}

func newForger(t *testing.T, f *fixture) *forger {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.pool.Exec(t.Context(), `
		insert into gateway.auth_keys (kid, algorithm, public_key, private_key, state) values ('forged', 'EdDSA', $1, '', 'verifying')`, []byte(public))
	if err != nil {
		t.Fatal(err)
	}
	token, _ := f.issue(t, tenant.TokenSpec{Role: "owner", Lifetime: 24 * time.Hour})
	return &forger{f, private, token}
}

// claims returns those of a good token, with some of them replaced; nil takes one away.
func (g *forger) claims(changes map[string]any) jwt.MapClaims {
	now := g.f.clock.Now().Unix()
	c := jwt.MapClaims{
		"iss": "sallyport", "aud": "gateway-api", "sub": "somebody", "ten": typeid.Format(typeid.Tenant, g.f.acme.ID),
		"scope": "events:write events:read", "iat": now, "nbf": now, "exp": now + 3600, "jti": typeid.Format(typeid.Token, g.token.ID),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (g *forger) sign(t *testing.T, header map[string]any, c jwt.Claims) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	token.Header["kid"] = "forged"
	maps.Copy(token.Header, header)
	text, err := token.SignedString(g.private)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signRaw signs a header and claims that are given as they are.
func (g *forger) signRaw(header, claims string) string {
	signed := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(g.private, []byte(signed)))
}

func refused(t *testing.T, a *tenant.Authority, text string, want error) *tenant.TokenError {
	t.Helper()
	caller, err := a.Authenticate(t.Context(), text)
	var e *tenant.TokenError
	if !errors.As(err, &e) || !errors.Is(err, want) {
		t.Errorf("got %+v and %v, want %v", caller, err, want)
		return &tenant.TokenError{}
	}
	return e
}

func accepted(t *testing.T, a *tenant.Authority, text string) tenant.Caller {
	t.Helper()
	caller, err := a.Authenticate(t.Context(), text)
	if err != nil {
		t.Errorf("refused: %v", err)
	}
	return caller
}
