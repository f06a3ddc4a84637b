package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Claimed is an event in a pass: what a router may decide by.
type Claimed struct {
	Seq            int64
	ID             uuid.UUID
	TenantID       uuid.UUID
	Type           string
	Subject        *string
	Scopes         []string
	PreviousScopes []string
	AcceptedAt     time.Time
}

// Router makes something of each event that a pass hands over: deliveries, jobs of a subscription.
type Router interface {
	// RouteTx decides what is to be made of the events, and writes nothing yet. It runs in the pass's
	// transaction, after the claim, so what it reads is at least as new as every claimed event.
	RouteTx(ctx context.Context, tx pgx.Tx, events []Claimed) (Route, error)
}

// Route is what a router has decided about the events it was given, in their order.
type Route interface {
	// Size is how many rows event i will make. A pass stops before the event that would take it past its bound.
	Size(i int) int
	// WriteTx writes what was decided for the first n events.
	WriteTx(ctx context.Context, tx pgx.Tx, n int) error
	// Describe adds to what the event's row will say about event i.
	Describe(i int, f *Fanout)
	// Committed is called once the pass has committed. It must not block.
	Committed()
}
