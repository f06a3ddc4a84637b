package tenant

import (
	"time"

	"github.com/google/uuid"
)

// Channel is where a commit that changes what processes keep in memory says so: tenants, tokens, keys, endpoints. The
// payload is a kind and an id: "tenant <uuid>", "token <uuid>", "key <kid>", "endpoint <uuid of its tenant>".
const Channel = "gateway_changes"

// State says what a tenant may do.
type State string

// The states of a tenant; values may be added.
const (
	Active    State = "active"
	Suspended State = "suspended" // it reads, but changes nothing; its deliveries are held
)

// Tenant is a customer of the operator.
type Tenant struct {
	ID          uuid.UUID
	UID         *string // the operator's own name for it
	Name        string
	State       State
	Metadata    map[string]string
	Version     int64
	CreatedAt   time.Time
	UpdatedAt   time.Time
	SuspendedAt *time.Time
}

// Spec is a tenant to be created.
type Spec struct {
	UID      *string
	Name     string
	Metadata map[string]string
}

// Patch is a change of a tenant; fields that it does not name stay. Name and State can't be cleared.
type Patch struct {
	UID      Change[*string]
	Name     Change[string]
	State    Change[State]
	Metadata Change[map[string]*string] // member by member; nil removes one
}

// ListQuery asks for a page of tenants, newest first.
type ListQuery struct {
	Limit  int       // 1 to 200; else 50
	Before uuid.UUID // the last one of the page before; nil: the first page
	States []State   // none: all
}

const (
	defaultPage = 50
	maxPage     = 200
)

func pageSize(limit int) int {
	if limit < 1 || limit > maxPage {
		return defaultPage
	}
	return limit
}

func (s Spec) validate() error {
	if err := CheckUID(s.UID); err != nil {
		return err
	}
	if err := checkName("name", s.Name, maxName); err != nil {
		return err
	}
	return CheckMetadata(s.Metadata)
}

// apply changes t.
func (p Patch) apply(t *Tenant) error {
	t.UID = p.UID.Apply(t.UID, nil)
	t.Name = p.Name.Apply(t.Name, "")
	t.State = p.State.Apply(t.State, "")
	t.Metadata = MergeMetadata(t.Metadata, p.Metadata)
	if t.State != Active && t.State != Suspended {
		return invalid("state", "It is %q or %q.", Active, Suspended)
	}
	return Spec{UID: t.UID, Name: t.Name, Metadata: t.Metadata}.validate()
}
