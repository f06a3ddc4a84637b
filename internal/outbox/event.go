package outbox

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"time"

	"github.com/google/uuid"
)

// State is how far an event has come.
type State string

// The states of an event. Values may be added.
const (
	Pending   State = "pending"    // accepted, not yet handed over: it is the backlog
	FannedOut State = "fanned_out" // its deliveries and jobs exist
	Poisoned  State = "poisoned"   // set aside after its own failures; requeue puts it back
)

var (
	// ErrNotFound says that the tenant has no such event.
	ErrNotFound = errors.New("event not found")
	// ErrUIDConflict says that the tenant has an event of this uid whose content is another.
	ErrUIDConflict = errors.New("an event with this uid and other content exists")
)

// Post is an event as a caller states it. It has been validated: lengths and grammar are the API's to check.
type Post struct {
	TenantID       uuid.UUID
	UID            *string
	Type           string
	Subject        *string
	Scopes         []string
	PreviousScopes []string
	OccurredAt     *time.Time // nil: when it is accepted
	Data           []byte     // JSON; kept byte for byte
	RequestID      *string
	TraceParent    *string
	TokenID        *uuid.UUID
}

// Receipt is what is committed of a post.
type Receipt struct {
	ID         uuid.UUID
	State      State
	AcceptedAt time.Time
	Duplicate  bool // an event of the same uid and content was there before
}

// fingerprint tells two contents of one uid apart. Fields are preceded by their length, so that no two
// different posts run together; an absent field differs from an empty one.
func (p Post) fingerprint() []byte {
	h := sha256.New()
	field(h, []byte(p.Type))
	if p.Subject != nil {
		field(h, []byte(*p.Subject))
	} else {
		absent(h)
	}
	for _, list := range [][]string{p.Scopes, p.PreviousScopes} {
		number(h, uint64(len(list)))
		for _, s := range list {
			field(h, []byte(s))
		}
	}
	if p.OccurredAt != nil {
		number(h, uint64(p.OccurredAt.UnixMicro()))
	} else {
		absent(h)
	}
	field(h, p.Data)
	return h.Sum(nil)
}

func field(h hash.Hash, b []byte) {
	number(h, uint64(len(b)))
	h.Write(b)
}

func number(h hash.Hash, n uint64) {
	h.Write(binary.BigEndian.AppendUint64(nil, n))
}

func absent(h hash.Hash) { number(h, 1<<63) }

// Event is a stored event. Data is filled only where it was asked for.
type Event struct {
	ID             uuid.UUID
	TenantID       uuid.UUID
	UID            *string
	Type           string
	Subject        *string
	Scopes         []string
	PreviousScopes []string
	OccurredAt     time.Time
	AcceptedAt     time.Time
	State          State
	FannedOutAt    *time.Time
	PoisonedAt     *time.Time
	Fanout         *Fanout
	RelayFailures  int
	RelayError     *string
	RequestID      *string
	Data           []byte
}

// Fanout is what a pass made of an event, as it stands on the event's row. Which endpoint got which delivery
// stands on the deliveries.
type Fanout struct {
	Deliveries int                    `json:"deliveries"`
	Held       int                    `json:"held,omitempty"`
	Skipped    map[string]int         `json:"skipped,omitempty"`   // endpoints by the reason they got none
	Endpoints  map[string][]uuid.UUID `json:"endpoints,omitempty"` // which, for the reasons worth it; at most 50 each
}
