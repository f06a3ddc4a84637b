package tenant

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// claims is what a token says. All but nbf, ten and evs must be there.
type claims struct {
	Issuer      string   `json:"iss"`
	Audience    audience `json:"aud"`
	Subject     string   `json:"sub"`
	Tenant      string   `json:"ten,omitempty"` // of a tenant's token, and never of an operator's
	Scope       string   `json:"scope"`         // separated by spaces
	EventScopes []string `json:"evs,omitempty"` // absent: all
	IssuedAt    *seconds `json:"iat"`
	NotBefore   *seconds `json:"nbf,omitempty"`
	ExpiresAt   *seconds `json:"exp"`
	ID          string   `json:"jti"`
}

// seconds is a time as whole seconds since 1970, in digits. JWT would also allow fractions, and the library reads
// strings; nobody whom we know writes them, and what can be written in one way only is safer to compare.
type seconds int64

var errSeconds = errors.New("a time is not written as whole seconds since 1970")

func (s *seconds) UnmarshalJSON(text []byte) error {
	if len(text) > 13 { // beyond the year 300,000; and it keeps the sum below from running over
		return errSeconds
	}
	n := seconds(0)
	for _, c := range text {
		if c < '0' || c > '9' {
			return errSeconds
		}
		n = 10*n + seconds(c-'0')
	}
	*s = n
	return nil
}

func at(t time.Time) *seconds {
	s := seconds(t.Unix())
	return &s
}

func (s *seconds) time() time.Time { return time.Unix(int64(*s), 0) }

func (s *seconds) date() (*jwt.NumericDate, error) {
	if s == nil {
		return nil, nil
	}
	return jwt.NewNumericDate(s.time()), nil
}

// audience is whom a token is for: one name, alone or as the only one of a list. A token is never for two.
type audience string

func (a *audience) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*a = audience(one)
		return nil
	}
	var list []string
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 1 {
		return errors.New("aud is not one name")
	}
	*a = audience(list[0])
	return nil
}

// GetExpirationTime and the next ones are what the library validates.
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.ExpiresAt.date() }

// GetIssuedAt returns iat.
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error) { return c.IssuedAt.date() }

// GetNotBefore returns nbf.
func (c *claims) GetNotBefore() (*jwt.NumericDate, error) { return c.NotBefore.date() }

// GetIssuer returns iss.
func (c *claims) GetIssuer() (string, error) { return c.Issuer, nil }

// GetSubject returns sub.
func (c *claims) GetSubject() (string, error) { return c.Subject, nil }

// GetAudience returns aud.
func (c *claims) GetAudience() (jwt.ClaimStrings, error) {
	return jwt.ClaimStrings{string(c.Audience)}, nil
}

// caller reads what the claims say, and refuses what no token of ours says; what depends on the clock is not looked at.
func (c *claims) caller(admin bool, longest time.Duration) (Caller, error) {
	for _, claim := range []struct {
		name    string
		missing bool
	}{
		{"iss", c.Issuer == ""}, {"aud", c.Audience == ""}, {"sub", c.Subject == ""}, {"jti", c.ID == ""},
		{"iat", c.IssuedAt == nil}, {"exp", c.ExpiresAt == nil},
	} {
		if claim.missing {
			return Caller{}, malformed("It has no %s.", claim.name)
		}
	}
	if life := c.ExpiresAt.time().Sub(c.IssuedAt.time()); life > longest || life <= 0 {
		return Caller{}, malformed("It is valid for longer than the %d seconds that a token may be, or not at all.", int64(longest/time.Second))
	}
	caller := Caller{Subject: c.Subject, Admin: admin, Scopes: strings.Fields(c.Scope), EventScopes: c.EventScopes, ExpiresAt: c.ExpiresAt.time()}
	var err error
	if caller.Token, err = typeid.Parse(typeid.Token, c.ID); err != nil {
		return Caller{}, malformed("Its jti is no id of a token.")
	}
	switch {
	case admin && c.Tenant != "":
		return Caller{}, malformed("It is an operator's and yet names a tenant.")
	case admin:
		return caller, nil
	}
	if caller.Tenant, err = typeid.Parse(typeid.Tenant, c.Tenant); err != nil || caller.Tenant == uuid.Nil {
		return Caller{}, malformed("It names no tenant.")
	}
	return caller, nil
}

func malformed(format string, args ...any) *TokenError {
	return &TokenError{Reason: ErrTokenMalformed, Detail: fmt.Sprintf(format, args...)}
}
