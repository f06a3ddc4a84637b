package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/glob"
)

// Lifetimes of a token.
const (
	MinLifetime     = time.Minute
	DefaultLifetime = 90 * 24 * time.Hour
)

// Token is what is kept of a token: all but its text.
type Token struct {
	ID          uuid.UUID  // its jti
	Tenant      *uuid.UUID // nil: an operator's
	Name        string
	Subject     string
	Scopes      []string
	EventScopes []string // nil: all
	KeyID       string
	CreatedBy   *string
	CreatedAt   time.Time
	ExpiresAt   time.Time
	LastUsedAt  *time.Time // to the minute
	RevokedAt   *time.Time
}

// TokenSpec is a token to be issued.
type TokenSpec struct {
	Tenant uuid.UUID // nil with Admin
	Admin  bool      // an operator's
	Name   string    // for people
	// Subject is who will use it; empty: the name.
	Subject string
	// Role or Scopes: one of them.
	Role   string
	Scopes []string
	// EventScopes are globs over the scopes of the events that it may read, and give to endpoints. Nil: those of By.
	EventScopes []string
	// Lifetime is whole seconds, at least MinLifetime, at most the authority's maximum; 0: DefaultLifetime.
	Lifetime time.Duration
	// By is who asks for it, and can grant no more than it holds. Nil: the operator at the command line, who can all.
	By *Caller
}

// TokenQuery asks for a page of tokens, newest first, revoked and expired ones too.
type TokenQuery struct {
	Tenant uuid.UUID // nil: the operators' tokens
	Limit  int       // 1 to 200; else 50
	Before uuid.UUID // the last one of the page before; nil: the first page
}

// normalize fills in what is left out, and says what is wrong; errors are *Invalid.
func (s TokenSpec) normalize(longest time.Duration) (TokenSpec, error) {
	if s.Subject == "" {
		s.Subject = s.Name
	}
	if s.Lifetime == 0 {
		s.Lifetime = min(DefaultLifetime, longest)
	}
	if err := checkName("name", s.Name, maxTokenName); err != nil {
		return s, err
	}
	if err := checkName("subject", s.Subject, maxTokenName); err != nil {
		return s, err
	}
	if s.Lifetime < MinLifetime || s.Lifetime > longest || s.Lifetime%time.Second != 0 {
		return s, invalid("expires_in_seconds", "It is %d to %d seconds.", int64(MinLifetime/time.Second), int64(longest/time.Second))
	}
	if s.Admin != (s.Tenant == uuid.Nil) {
		return s, invalid("tenant", "A token is a tenant's or an operator's: one of the two.")
	}
	if err := s.expandScopes(); err != nil {
		return s, err
	}
	if err := s.expandEventScopes(); err != nil {
		return s, err
	}
	return s, s.checkGrant()
}

func (s *TokenSpec) expandScopes() error {
	known := tenantScopes()
	if s.Admin {
		known = operatorScopes()
	}
	switch {
	case s.Role != "" && len(s.Scopes) > 0:
		return invalid("role", "A token has either a role or scopes.")
	case s.Role != "":
		s.Scopes = ScopesOf(s.Role, s.Admin)
		if s.Scopes == nil {
			return invalid("role", "There is no such role; there are %s.", strings.Join(Roles(s.Admin), ", "))
		}
	case len(s.Scopes) == 0:
		return &Invalid{Field: "scopes", Code: CodeInvalid, Detail: "The token would be good for nothing.",
			Hint: "Give it scopes, or one of the roles " + strings.Join(Roles(s.Admin), ", ") + "."}
	}
	if i, missing := first(s.Scopes, known); missing {
		return invalid(fmt.Sprintf("scopes/%d", i), "There is no such scope; there are %s.", strings.Join(known, ", "))
	}
	s.Scopes = slices.Compact(slices.Sorted(slices.Values(s.Scopes)))
	return nil
}

func (s *TokenSpec) expandEventScopes() error {
	switch {
	case s.EventScopes == nil && s.By != nil:
		s.EventScopes = s.By.EventScopes
	case s.EventScopes != nil && s.Admin:
		return invalid("event_scopes", "An operator's token has none.")
	case s.EventScopes != nil && len(s.EventScopes) == 0:
		return &Invalid{Field: "event_scopes", Code: CodeInvalid, Detail: "The token would admit no event.",
			Hint: "Leave event_scopes out, or name what the token may see, as project/42/**."}
	}
	if s.EventScopes == nil {
		return nil
	}
	globs, err := glob.ParseList(glob.Slash, s.EventScopes)
	if err != nil {
		i := &Invalid{Field: "event_scopes", Code: CodeGlob, Detail: err.Error()}
		var e *glob.Error
		if errors.As(err, &e) {
			i.Field = fmt.Sprintf("event_scopes/%d", e.Index)
		}
		return i
	}
	stored := make([]string, len(globs))
	for i, g := range globs {
		stored[i] = g.String()
	}
	s.EventScopes = stored
	return nil
}

// checkGrant keeps a token from granting more than it holds. An operator's, which holds admin scopes only, may make
// any token for a tenant: it made the tenant.
func (s *TokenSpec) checkGrant() error {
	if s.By == nil || s.By.Admin && !s.Admin {
		return nil
	}
	if i, missing := first(s.Scopes, s.By.Scopes); missing {
		return &Invalid{Field: "scopes", Code: CodeNotGrantable, Detail: "The token that asks does not hold " + s.Scopes[i] + " itself.",
			Hint: "Ask with a token that holds it, or leave it out."}
	}
	if !s.By.MayGrant(s.EventScopes) {
		return &Invalid{Field: "event_scopes", Code: CodeNotGrantable, Detail: "The token that asks does not hold these event scopes itself.",
			Hint: "Name event scopes within " + strings.Join(s.By.EventScopes, ", ") + "."}
	}
	return nil
}
