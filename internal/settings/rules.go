package settings

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Tries is how many tries a run has; the schedule has the gaps between them.
const Tries = 18

// The pool of connections: refused under the first, warned of under the second. Relay, recording, the API and the
// job queue each want one at the same time.
const (
	poolRefused = 4
	poolWarned  = 10
)

// longestPoll bounds RELAY_POLL: a notification can be lost, and the poll is then all there is.
const longestPoll = 2 * time.Second

// judge collects the rules that do not hold.
type judge struct {
	s        *Settings
	texts    map[string]string // what each setting prints as
	bad      map[string]bool
	problems Problems
}

// contradictions holds the settings against each other. A rule about a setting in bad is left out: its value is
// not what was meant.
func (s *Settings) contradictions(bad map[string]bool) Problems {
	j := judge{s: s, bad: bad, texts: make(map[string]string)}
	for _, t := range s.table() {
		j.texts[t.name] = t.value.text()
	}
	j.outbox()
	j.schedule()
	j.timeouts()
	j.health()
	j.processes()
	j.retention()
	j.server()
	return j.problems
}

// hold adds a problem unless ok. names begins with the setting that is to be changed.
func (j *judge) hold(ok bool, names, must, do string) {
	list := strings.Fields(names)
	if ok || slices.ContainsFunc(list, func(n string) bool { return j.bad[n] }) {
		return
	}
	shown := make([]string, len(list))
	for i, n := range list {
		shown[i] = fmt.Sprintf("%s %s %s", n, j.texts[n], j.s.origins[n])
	}
	j.problems = append(j.problems, Problem{list[0], must, strings.Join(shown, ", "), do})
}

// atLeast is the advice to raise a setting to a time.
func atLeast(name string, d time.Duration) string {
	return fmt.Sprintf("Raise %s to %s or more.", name, printSpan(d))
}

// atMost is the advice to lower a setting to a time.
func atMost(name string, d time.Duration) string {
	return fmt.Sprintf("Lower %s to %s or less.", name, printSpan(d))
}

func (j *judge) outbox() {
	s := j.s
	j.hold(s.RelayPoll <= longestPoll, "RELAY_POLL",
		"must be at most 2s, since a notification that wakes the relay can be lost", atMost("RELAY_POLL", longestPoll))
	j.hold(s.RelaySweep >= s.RelayPoll, "RELAY_SWEEP RELAY_POLL",
		"must be at least RELAY_POLL", atLeast("RELAY_SWEEP", s.RelayPoll))
	j.hold(s.OutboxMaxTenant <= s.OutboxMax, "OUTBOX_MAX_TENANT OUTBOX_MAX",
		"must be at most OUTBOX_MAX, or one tenant could stop all", fmt.Sprintf("Lower OUTBOX_MAX_TENANT to %d or less.", s.OutboxMax))
	j.hold(s.BacklogAlert.Events < s.OutboxMaxTenant, "BACKLOG_ALERT OUTBOX_MAX_TENANT",
		"must have fewer rows than OUTBOX_MAX_TENANT, or posts would be refused before anyone is told", fmt.Sprintf("Lower its rows below %d.", s.OutboxMaxTenant))
	j.hold(s.IdempotencyTTL <= s.RetentionEvents, "IDEMPOTENCY_TTL RETENTION_EVENTS",
		"must be at most RETENTION_EVENTS, or a repeated call would be shown an event that is gone", atMost("IDEMPOTENCY_TTL", s.RetentionEvents))
}

func (j *judge) schedule() {
	s := j.s
	j.hold(len(s.RetrySchedule) == Tries-1, "RETRY_SCHEDULE",
		fmt.Sprintf("has %d gaps, and %d tries have %d", len(s.RetrySchedule), Tries, Tries-1), "Write 17 gaps; 10h*12 is twelve of 10h.")
	j.hold(slices.IsSorted(s.RetrySchedule), "RETRY_SCHEDULE",
		"has a gap that is shorter than the one before", "Write the gaps so that none falls.")
	if len(s.RetrySchedule) == 0 {
		return
	}
	longest := time.Duration(float64(s.RetryWindow()) * (1 + s.RetryJitter))
	j.hold(s.RetryAfterMax <= s.LongestGap(), "RETRY_AFTER_MAX RETRY_SCHEDULE",
		"must be at most the schedule's longest gap, or a receiver could outwait the schedule", atMost("RETRY_AFTER_MAX", s.LongestGap()))
	j.hold(s.RunMaxAge > longest, "RUN_MAX_AGE RETRY_SCHEDULE RETRY_JITTER",
		"must be longer than the schedule with its jitter, or the last tries could never come", atLeast("RUN_MAX_AGE", longest+time.Millisecond))
	j.hold(s.RetentionEvents > longest, "RETENTION_EVENTS RETRY_SCHEDULE RETRY_JITTER",
		"must be longer than the schedule with its jitter, or a retry by hand would find no event", atLeast("RETENTION_EVENTS", longest+time.Millisecond))
	j.hold(s.InternalBackoff.Max <= s.InternalBackoff.GiveUp, "INTERNAL_BACKOFF",
		"must not wait longer than the time after which it gives up", "Raise its last part.")
	j.hold(s.InternalBackoff.GiveUp <= s.RunMaxAge, "INTERNAL_BACKOFF RUN_MAX_AGE",
		"must give up before the run ends by its age", fmt.Sprintf("Lower its last part to %s or less.", printSpan(s.RunMaxAge)))
}

func (j *judge) timeouts() {
	s := j.s
	lease := s.DeliveryTimeoutMax + s.LeaseMargin
	rescue := max(lease+s.LeaseMargin, s.JobTimeout)
	j.hold(s.ConnectTimeout <= s.DeliveryTimeout, "CONNECT_TIMEOUT DELIVERY_TIMEOUT",
		"must be at most DELIVERY_TIMEOUT, of which it is a part", atMost("CONNECT_TIMEOUT", s.DeliveryTimeout))
	j.hold(s.DeliveryTimeout <= s.DeliveryTimeoutMax, "DELIVERY_TIMEOUT DELIVERY_TIMEOUT_MAX",
		"must be at most DELIVERY_TIMEOUT_MAX", atMost("DELIVERY_TIMEOUT", s.DeliveryTimeoutMax))
	j.hold(s.JobTimeout > s.DeliveryTimeoutMax, "JOB_TIMEOUT DELIVERY_TIMEOUT_MAX",
		"must be longer than DELIVERY_TIMEOUT_MAX, or a job would be cut before its attempt ends", atLeast("JOB_TIMEOUT", lease))
	j.hold(s.RescueAfter >= lease+s.LeaseMargin, "RESCUE_AFTER DELIVERY_TIMEOUT_MAX LEASE_MARGIN",
		"must be at least the longest lease (DELIVERY_TIMEOUT_MAX + LEASE_MARGIN) and LEASE_MARGIN again, or a job could be freed while its attempt is in flight", atLeast("RESCUE_AFTER", rescue))
	j.hold(s.RescueAfter >= s.JobTimeout, "RESCUE_AFTER JOB_TIMEOUT",
		"must be at least JOB_TIMEOUT, or a job could be freed while it runs", atLeast("RESCUE_AFTER", rescue))
}

func (j *judge) health() {
	s := j.s
	if len(s.RetrySchedule) > 0 {
		// At the tie both happen at the 18th failure: the delivery is exhausted and the endpoint is disabled.
		j.hold(s.DisableAfter <= s.RetryWindow(), "DISABLE_AFTER RETRY_SCHEDULE",
			"must be at most the whole of the schedule, or deliveries would be lost to an endpoint that is never disabled", atMost("DISABLE_AFTER", s.RetryWindow()))
		j.hold(float64(s.DisableMaxGap) >= float64(s.LongestGap())*(1+s.RetryJitter), "DISABLE_MAX_GAP RETRY_SCHEDULE RETRY_JITTER",
			"must be at least the schedule's longest gap with its jitter, or no streak of failures would ever last",
			atLeast("DISABLE_MAX_GAP", time.Duration(float64(s.LongestGap())*(1+s.RetryJitter))))
	}
	j.hold(s.DisableMaxGap < s.DisableAfter, "DISABLE_MAX_GAP DISABLE_AFTER",
		"must be shorter than DISABLE_AFTER, or two lone failures would disable an endpoint", fmt.Sprintf("Lower DISABLE_MAX_GAP below %s.", printSpan(s.DisableAfter)))
	j.hold(s.FailingDelay < s.DisableMaxGap, "FAILING_DELAY DISABLE_MAX_GAP",
		"must be shorter than DISABLE_MAX_GAP, or a failing endpoint would not be tried often enough to be judged", fmt.Sprintf("Lower FAILING_DELAY below %s.", printSpan(s.DisableMaxGap)))
	j.hold(s.BreakerCooldown.Max < s.DisableMaxGap, "BREAKER_COOLDOWN DISABLE_MAX_GAP",
		"must end below DISABLE_MAX_GAP, or a failing endpoint would not be tried often enough to be judged", fmt.Sprintf("Lower its end below %s.", printSpan(s.DisableMaxGap)))
}

func (j *judge) processes() {
	s := j.s
	j.hold(s.DeadAfter > 2*s.Heartbeat, "DEAD_AFTER HEARTBEAT",
		"must be longer than two heartbeats, or one that is late would look like a death", fmt.Sprintf("Raise DEAD_AFTER above %s, or lower HEARTBEAT.", printSpan(2*s.Heartbeat)))
	j.hold(s.RescueAfter > s.DeadAfter, "RESCUE_AFTER DEAD_AFTER",
		"must be longer than DEAD_AFTER: it is the net below the take-over", fmt.Sprintf("Raise RESCUE_AFTER above %s.", printSpan(s.DeadAfter)))
	j.hold(s.Reconcile.Overdue > s.DeadAfter, "RECONCILE DEAD_AFTER",
		"must call a delivery lost only after DEAD_AFTER: until then it may be taken over", fmt.Sprintf("Raise its last part above %s.", printSpan(s.DeadAfter)))
	j.hold(s.DatabasePool >= poolRefused, "DATABASE_POOL",
		"is too small: the relay, the recorder, the API and the job queue each need a connection at once", fmt.Sprintf("Set it to %d or more; %d is a good start.", poolRefused, poolWarned))
}

func (j *judge) retention() {
	s := j.s
	j.hold(s.RetentionDeliveries > s.RunMaxAge, "RETENTION_DELIVERIES RUN_MAX_AGE",
		"must be longer than RUN_MAX_AGE, or open deliveries would be due to go", atLeast("RETENTION_DELIVERIES", s.RunMaxAge+time.Millisecond))
	j.hold(s.RetentionDeliveries >= s.RetentionEvents, "RETENTION_DELIVERIES RETENTION_EVENTS",
		"must be at least RETENTION_EVENTS, or an event would outlive what became of it", atLeast("RETENTION_DELIVERIES", s.RetentionEvents))
	j.hold(s.RetentionDeliveries >= s.RetentionHeld, "RETENTION_DELIVERIES RETENTION_HELD",
		"must be at least RETENTION_HELD", atLeast("RETENTION_DELIVERIES", s.RetentionHeld))
}

func (j *judge) server() {
	s := j.s
	_, port, _ := net.SplitHostPort(s.Listen)
	j.hold(s.Listen != s.OpsListen || port == "0", "OPS_LISTEN LISTEN",
		"must differ from LISTEN", "Give it a port of its own.")
	j.hold(s.AuthAudience != AdminAudience, "AUTH_AUDIENCE",
		"must not be "+AdminAudience+", which is an operator's", "Choose another name.")
	for _, name := range []string{"DATABASE_URL", "DATABASE_DIRECT_URL"} {
		text := s.DatabaseURL.Reveal()
		if name == "DATABASE_DIRECT_URL" {
			text = s.DatabaseDirectURL.Reveal()
		}
		ok := text == "" || strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://") ||
			(!strings.Contains(text, "://") && strings.Contains(text, "="))
		if !ok {
			// The text is not shown: whatever it is, it may hold a password.
			j.hold(false, name, "is neither a postgres:// URL nor a list of key=value words", "Write it as postgres://user:password@host:5432/name.")
		}
	}
	j.hold(!s.DatabaseDirectURL.IsSet() || s.DatabaseURL.IsSet(), "DATABASE_DIRECT_URL DATABASE_URL",
		"is set without DATABASE_URL", "Set DATABASE_URL; alone it is taken for both.")
}

// Warnings are about settings that hold together but are unsafe or small. Each is one line.
func (s *Settings) Warnings() []string {
	var all []string
	warn := func(when bool, name, text string) {
		if when {
			all = append(all, fmt.Sprintf("%s %s (%s).", name, text, s.origins[name]))
		}
	}
	warn(s.EgressAllowLoopback, "EGRESS_ALLOW_LOOPBACK", "is on: a tenant's endpoint can reach this machine itself; for development only")
	warn(s.AllowHTTP, "ALLOW_HTTP", "is on: endpoints may be http, and what they are sent can be read on the way")
	warn(len(s.EgressAllow) > 0, "EGRESS_ALLOW", "opens addresses that the guard refuses: every tenant can reach them")
	warn(s.DatabasePool >= poolRefused && s.DatabasePool < poolWarned, "DATABASE_POOL", "is small: under load the API will wait for connections; 10 is a good start")
	warn(s.origins["SECRET_KEYS"].At == "--secret-keys", "SECRET_KEYS", "is on the command line, where every user of this machine can read it; use GATEWAY_SECRET_KEYS_FILE")
	warn(s.origins["DATABASE_URL"].At == "--database-url" && hasPassword(s.DatabaseURL.Reveal()), "DATABASE_URL", "has a password on the command line, where every user of this machine can read it; use GATEWAY_DATABASE_URL_FILE")
	warn(strings.HasPrefix(s.PublicURL, "http://") && !loopbackHost(s.PublicURL), "PUBLIC_URL", "is http: tokens can be read on the way")
	return all
}

func hasPassword(text string) bool {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		_, has := u.User.Password()
		return has
	}
	return strings.Contains(text, "password=")
}

func loopbackHost(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
}
