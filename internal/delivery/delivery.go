package delivery

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// State is how far a delivery has come.
type State string

// The states of a delivery. Pending and Retrying are open; values may be added.
const (
	Pending   State = "pending"   // open, no try spent
	Retrying  State = "retrying"  // open, at least one try spent
	Held      State = "held"      // its endpoint is paused or disabled
	Succeeded State = "succeeded" // a 2xx came
	Exhausted State = "exhausted" // its tries are spent
	Rejected  State = "rejected"  // it must not be sent: 410, blocked, scope revoked
	Cancelled State = "cancelled" // endpoint deleted, event erased, or by hand
)

// Open says whether attempts are still to come by themselves.
func (s State) Open() bool { return s == Pending || s == Retrying }

// Reasons that stand on a delivery beside its state.
const (
	ReasonPaused          = "paused"
	ReasonDisabled        = "disabled"
	ReasonGone            = "gone"
	ReasonBlocked         = "blocked"
	ReasonScopeRevoked    = "scope_revoked"
	ReasonEndpointDeleted = "endpoint_deleted"
	ReasonEventErased     = "event_erased"
	ReasonRunTooOld       = "run_too_old"
	ReasonInternal        = "internal"
	ReasonInterrupted     = "interrupted"
)

// What made a delivery's run begin.
const (
	TriggerEvent  = "event"
	TriggerTest   = "test"
	TriggerRetry  = "retry"
	TriggerReplay = "replay"
	TriggerResume = "resume"
)

// ErrNotFound says that the tenant has no such delivery or attempt.
var ErrNotFound = errors.New("delivery not found")

// Key names a delivery: there is one for an event and an endpoint.
type Key struct {
	EventID    uuid.UUID
	EndpointID uuid.UUID
}

// Delivery is one event for one endpoint.
type Delivery struct {
	ID            uuid.UUID
	EventID       uuid.UUID
	EndpointID    uuid.UUID
	TenantID      uuid.UUID
	Type          string
	Subject       *string
	AcceptedAt    time.Time // the event's
	State         State
	Reason        *string
	Trigger       string
	Attempts      int // over its life
	Tries         int // spent of this run's schedule
	NextAttemptAt *time.Time
	InLine        bool // due, and waiting for a lease
	LastClass     *string
	LastStatus    *int
	LastAttemptAt *time.Time
	CreatedAt     time.Time
	EndedAt       *time.Time
}

// Sent says whether a byte of the request left.
type Sent string

// Unknown stands on the attempts of a process that died.
const (
	SentYes     Sent = "yes"
	SentNo      Sent = "no"
	SentUnknown Sent = "unknown"
)

// Attempt is one try at a POST and what came of it.
type Attempt struct {
	ID                uuid.UUID
	DeliveryID        uuid.UUID
	EventID           uuid.UUID
	EndpointID        uuid.UUID
	Number            int  // counts all attempts over the delivery's life
	Try               *int // its place in the schedule; nil: none was spent
	Trigger           string
	Outcome           Outcome
	Class             Class
	Reason            *string
	Sent              Sent
	Status            *int
	StartedAt         time.Time
	EndedAt           time.Time
	Phases            Phases
	ResponseHeaders   map[string][]string
	ResponseBody      []byte
	ResponseTruncated bool
	NextAttemptAt     *time.Time
	Request           *Request // what was sent, composed anew while the event lives
}

// Phases are the parts of an attempt's time; nil where a phase did not happen, as with a connection in use again.
type Phases struct {
	DNS, Connect, TLS, FirstByte, Total *time.Duration
	Reused                              *bool
	Protocol                            *string
}

// Request is what an attempt sent, less the signature, which needs the secret of that time.
type Request struct {
	Headers map[string]string
	Body    []byte
}
