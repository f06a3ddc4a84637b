package settings

import (
	"log/slog"
	"net/netip"
	"time"
)

// Settings is every setting, typed. What each means, its bounds and its default stand in the table (table.go) and
// in docs/settings.md. Load makes one; the zero value is not usable.
type Settings struct {
	// Outbox and relay.
	RelayBatchEvents     int
	RelayBatchDeliveries int
	RelayPoll            time.Duration
	RelaySweep           time.Duration
	RelayBackoff         Range
	PoisonAfter          int
	BacklogAlert         BacklogAlert
	OutboxMax            int
	OutboxMaxTenant      int
	MaxWaiters           int
	IdempotencyTTL       time.Duration

	// Retention.
	RetentionEvents     time.Duration
	RetentionDeliveries time.Duration
	RetentionHeld       time.Duration
	HeldMax             int
	JobsCompleted       time.Duration
	JobsCompletedMax    int
	JobsDiscarded       time.Duration

	// Delivery.
	DeliveryTimeout    time.Duration
	DeliveryTimeoutMax time.Duration
	ConnectTimeout     time.Duration
	LeaseMargin        time.Duration
	RetrySchedule      []time.Duration
	RetryJitter        float64
	RetryAfterMax      time.Duration
	DeferralsMax       int
	FailingDelay       time.Duration
	DisableAfter       time.Duration
	DisableMaxGap      time.Duration
	RunMaxAge          time.Duration
	InternalBackoff    InternalBackoff
	BreakerFailures    int
	BreakerCooldown    Range
	EgressOutage       EgressOutage
	RotationGrace      time.Duration

	// Workers and processes.
	Workers        int
	Heartbeat      time.Duration
	DeadAfter      time.Duration
	Reconcile      Reconcile
	JobTimeout     time.Duration
	RescueAfter    time.Duration
	ShutdownGrace  time.Duration
	ShutdownMargin time.Duration

	// Egress.
	EgressAllow         []string
	EgressDeny          []string
	EgressPorts         []PortRange
	EgressResolver      netip.AddrPort // zero: the machine's own
	EgressAllowLoopback bool
	AllowHTTP           bool

	// Server.
	DatabaseURL       Secret
	DatabaseDirectURL Secret
	DatabasePool      int
	Listen            string
	OpsListen         string
	Roles             []string
	PublicURL         string
	CORSOrigins       []string
	AuthIssuer        string
	AuthAudience      string
	AuthJWKSURL       string
	LogLevel          slog.Level
	LogFormat         string
	SecretKeys        Secret

	origins map[string]Origin
}

// Range is a span of time that grows from Min to Max, as a back-off does. 0 < Min ≤ Max.
type Range struct{ Min, Max time.Duration }

// BacklogAlert is when the backlog of the outbox raises an alert: more than Events rows, or the oldest past Age.
type BacklogAlert struct {
	Events int
	Age    time.Duration
}

// InternalBackoff is how long a delivery waits after an error of our own, and after how much of that it is given up.
type InternalBackoff struct {
	Range
	GiveUp time.Duration
}

// EgressOutage is when failures are taken for an outage of ours: at least Endpoints were tried within Window and
// more than Share of them could not be reached.
type EgressOutage struct {
	Endpoints int
	Share     float64
	Window    time.Duration
}

// Reconcile is how often lost jobs are looked for, and how long a delivery must be overdue to count as lost.
type Reconcile struct{ Every, Overdue time.Duration }

// PortRange is a range of ports, both ends included.
type PortRange struct{ From, To uint16 }

// The roles of a process.
const (
	RoleAPI    = "api"
	RoleRelay  = "relay"
	RoleWorker = "worker"
)

// HasRole says whether this process has a role.
func (s *Settings) HasRole(role string) bool {
	for _, r := range s.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// DirectURL is the database for what needs a session of its own (LISTEN, migrations, advisory locks): past a
// connection pooler if there is one.
func (s *Settings) DirectURL() Secret {
	if s.DatabaseDirectURL.IsSet() {
		return s.DatabaseDirectURL
	}
	return s.DatabaseURL
}

// RetryWindow is how long a run lasts that fails to its end, before jitter: the sum of the schedule's gaps.
func (s *Settings) RetryWindow() time.Duration {
	var sum time.Duration
	for _, gap := range s.RetrySchedule {
		sum += gap
	}
	return sum
}

// LongestGap is the schedule's last gap, since gaps never fall; zero without a schedule.
func (s *Settings) LongestGap() time.Duration {
	if len(s.RetrySchedule) == 0 {
		return 0
	}
	return s.RetrySchedule[len(s.RetrySchedule)-1]
}
