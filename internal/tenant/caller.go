package tenant

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Caller is who speaks: what a valid token says. Its lists are shared between calls and not to be changed.
type Caller struct {
	Tenant      uuid.UUID // nil: an operator
	Token       uuid.UUID
	Subject     string
	Admin       bool
	Scopes      []string
	EventScopes []string // globs over the scopes of events; nil: all
	Suspended   bool     // its tenant may read, but change nothing
	ExpiresAt   time.Time
}

// Allows says whether the caller holds a scope.
func (c Caller) Allows(scope string) bool { return slices.Contains(c.Scopes, scope) }

// MayGrant says whether the caller may let somebody have the events that these globs over scopes admit: only what its
// own event scopes admit. Nil stands for all events.
func (c Caller) MayGrant(eventScopes []string) bool { return covers(c.EventScopes, eventScopes) }
