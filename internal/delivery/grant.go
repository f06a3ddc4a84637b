package delivery

import (
	"time"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/egress"
)

// grant is a lease that this process was given, with all that the attempt needs but the endpoint's secrets.
type grant struct {
	key       Key
	tenantID  uuid.UUID
	version   int64 // of the endpoint
	number    int   // of the attempt
	trigger   string
	leased    time.Time // by the database's clock
	granted   time.Time // by this process's, with its monotonic reading
	before    Progress
	message   message
	scopes    []string
	previous  []string
	traceFrom *string
}

// result is what came of a grant.
type result struct {
	grant   *grant
	verdict Verdict
	sent    Sent
	http    egress.Result
	trace   string        // the traceparent that was sent
	elapsed time.Duration // from the grant to the end of the attempt
	stale   int           // batches that this result was part of and that failed
}

// spoil makes a result out of an error of our own.
func (g *grant) spoil(p Policy, reason string) result {
	return result{grant: g, verdict: p.Internal(reason, g.before), sent: SentNo, elapsed: time.Since(g.granted)}
}
