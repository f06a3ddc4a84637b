package endpoint

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// State says whether an endpoint gets its deliveries.
type State string

// The states of an endpoint; values may be added.
const (
	Enabled  State = "enabled"
	Paused   State = "paused"   // by its owner: its deliveries are held
	Disabled State = "disabled" // for a DisabledReason: its deliveries are held
)

// Reasons why an endpoint is disabled.
const (
	ReasonFailing = "failing" // for five days
	ReasonGone    = "gone"    // it answered 410
	ReasonManual  = "manual"
)

var (
	// ErrNotFound says that the tenant has no such endpoint.
	ErrNotFound = errors.New("endpoint not found")
	// ErrUIDTaken says that another endpoint of the tenant has the uid.
	ErrUIDTaken = errors.New("an endpoint with this uid exists")
	// ErrLimit says that the tenant has as many endpoints as it may have.
	ErrLimit = errors.New("the tenant has as many endpoints as it may have")
	// ErrVersion says that the endpoint has changed since the version that the caller named; it comes as a *VersionError.
	ErrVersion = tenant.ErrVersion
)

// VersionError is ErrVersion with the version that would have been right.
type VersionError = tenant.VersionError

// Invalid says which field of a request is wrong. Its Code is one of tenant's or, for the URL, of egress's.
type Invalid = tenant.Invalid

// Change says what a request does to a field: see tenant.To and tenant.Clear.
type Change[T any] = tenant.Change[T]

// Endpoint is a receiver, without what is sealed.
type Endpoint struct {
	ID             uuid.UUID
	TenantID       uuid.UUID
	UID            *string // its owner's name for it
	URL            string  // in canonical form
	Description    string
	Types          []string // globs: what it wants
	Scopes         []string // globs: what it may receive
	HeaderNames    []string // of its own headers, in canonical spelling, sorted
	Metadata       map[string]string
	Timeout        time.Duration
	MaxInFlight    int
	RatePerSecond  *int            // nil: as fast as it can
	Schedule       []time.Duration // between tries; nil: the gateway's
	TraceParent    bool            // whether traceparent is sent on
	State          State
	DisabledReason *string
	StateAt        time.Time
	Health         Health
	Secrets        []SecretInfo // that sign, the newest first
	Version        int64
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// HealthStatus says in a word how deliveries fare.
type HealthStatus string

// The states of health; values may be added.
const (
	Healthy    HealthStatus = "healthy"
	Failing    HealthStatus = "failing"    // since the first failure after the last success
	Unverified HealthStatus = "unverified" // nothing has succeeded or failed yet
)

// Health is how deliveries fare. It moves with each attempt, and the endpoint's version does not.
type Health struct {
	Status        HealthStatus
	FailingSince  *time.Time
	LastFailureAt *time.Time
	LastSuccessAt *time.Time
	LastClass     *string // of the last attempt that counted
	Failures      int     // in a row
	CooldownUntil *time.Time
	HeldExpiredAt *time.Time // when held deliveries last ran out of time
}

// SecretInfo is a secret without the secret.
type SecretInfo struct {
	Fingerprint string
	CreatedAt   time.Time
	RetiresAt   *time.Time // nil: the newest
}

// Ref names an endpoint by its id or, if UID is set, by that.
type Ref struct {
	ID  uuid.UUID
	UID string
}

// Spec is an endpoint to be created. Only URL is needed; what is left out (nil, 0) gets its default.
type Spec struct {
	UID           *string
	URL           string
	Description   string
	Types         []string // default: all
	Scopes        []string // default: the event scopes of the caller's token, else all
	Headers       map[string]string
	Metadata      map[string]string
	Timeout       time.Duration // 1 to 30 s; default 15 s
	MaxInFlight   int           // 1 to 100; default 50
	RatePerSecond *int
	Schedule      []time.Duration
	TraceParent   *bool          // default: true
	Secret        signing.Secret // brought from elsewhere; the zero value: a new one is made
}

// Patch is a change of an endpoint. Fields that it does not name stay; a cleared one gets the default of a new endpoint.
type Patch struct {
	UID           Change[*string]
	URL           Change[string] // can't be cleared
	Description   Change[string]
	Types         Change[[]string]
	Scopes        Change[[]string]
	Headers       Change[map[string]*string] // one by one; nil removes one
	Metadata      Change[map[string]*string] // member by member; nil removes one
	Timeout       Change[time.Duration]
	MaxInFlight   Change[int]
	RatePerSecond Change[*int]
	Schedule      Change[[]time.Duration]
	TraceParent   Change[bool]
}

// ListQuery asks for a page of a tenant's endpoints, newest first.
type ListQuery struct {
	Limit  int          // 1 to 200; else 50
	Before uuid.UUID    // the last one of the page before; nil: the first page
	States []State      // none: all
	Health HealthStatus // empty: all
	UID    string       // empty: all
	URL    string       // a part of it, in any case; empty: all
	Type   string       // a type that its globs admit; empty: all
}

func status(failingSince, lastSuccess *time.Time) HealthStatus {
	switch {
	case failingSince != nil:
		return Failing
	case lastSuccess == nil:
		return Unverified
	}
	return Healthy
}
