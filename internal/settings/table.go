package settings

import (
	"strings"
	"time"
)

// setting is one row of the table.
type setting struct {
	name   string // RELAY_POLL
	value  value
	preset string // the default, as text
	about  string // one or two sentences for the docs
	secret bool   // never shown, and read from a file with _FILE
}

// flag is the setting's name on a command line: relay-poll.
func (t setting) flag() string { return strings.ReplaceAll(t.key(), "_", "-") }

// key is its name in the file: relay_poll.
func (t setting) key() string { return strings.ToLower(t.name) }

// env is its name in the environment: GATEWAY_RELAY_POLL.
func (t setting) env() string { return envPrefix + t.name }

// group is a part of the table, under a title in the docs.
type group struct {
	title    string
	settings []setting
}

// groups is the whole table, bound to s.
func (s *Settings) groups() []group {
	return []group{
		{"Server", s.serverTable()},
		{"Outbox and relay", s.outboxTable()},
		{"Delivery", s.deliveryTable()},
		{"Health of endpoints", s.healthTable()},
		{"Workers and processes", s.workerTable()},
		{"Retention", s.retentionTable()},
		{"Egress", s.egressTable()},
	}
}

// table is every setting in the order of the docs.
func (s *Settings) table() []setting {
	var all []setting
	for _, g := range s.groups() {
		all = append(all, g.settings...)
	}
	return all
}

func (s *Settings) serverTable() []setting {
	return []setting{
		{"DATABASE_URL", database(&s.DatabaseURL), "", "The database. `DATABASE_URL` without the prefix is taken where this one is not set.", true},
		{"DATABASE_DIRECT_URL", database(&s.DatabaseDirectURL), "", "The same database past a connection pooler, for LISTEN and migrations. Empty: `DATABASE_URL`.", true},
		{"DATABASE_POOL", integer(&s.DatabasePool, 1, 1000), "20", "The most connections that a process pools. One more is for LISTEN, and one is River's.", false},
		{"SECRET_KEYS", secret(&s.SecretKeys), "", "The keys that seal secrets at rest, `id:base64` of 32 bytes, with commas between; the first one seals, all of them open. `gateway keys generate` makes one.", true},
		{"ROLES", words(&s.Roles, RoleAPI, RoleRelay, RoleWorker), "api,relay,worker", "What this process does: answer the API, hand events over, deliver.", false},
		{"LISTEN", address(&s.Listen), ":8080", "Where the API listens. Port 0 is any free one.", false},
		{"OPS_LISTEN", address(&s.OpsListen), "127.0.0.1:9090", "Where health and metrics listen. Both are open to whoever reaches the port.", false},
		{"PUBLIC_URL", link(&s.PublicURL), "", "The API's address as its callers see it, for the links in answers. Empty: links are paths.", false},
		{"CORS_ORIGINS", origins(&s.CORSOrigins), "", "Web origins whose pages may call the API. Empty: none.", false},
		{"AUTH_ISSUER", plain(&s.AuthIssuer), "sallyport", "The issuer (`iss`) of the tokens that this gateway makes and takes.", false},
		{"AUTH_AUDIENCE", plain(&s.AuthAudience), "gateway-api", "The audience (`aud`) of a tenant's tokens. An operator's is always `" + AdminAudience + "`.", false},
		{"AUTH_JWKS_URL", link(&s.AuthJWKSURL), "", "Where the public keys of an outside issuer of tokens are read. Empty: there is none.", false},
		{"LOG_LEVEL", level(&s.LogLevel), "info", "The least level that is logged.", false},
		{"LOG_FORMAT", word(&s.LogFormat, "text", "json"), "text", "How a log line is written.", false},
	}
}

func (s *Settings) outboxTable() []setting {
	return []setting{
		{"RELAY_BATCH_EVENTS", integer(&s.RelayBatchEvents, 1, 10_000), "200", "Events that a pass of the relay hands over, at most.", false},
		{"RELAY_BATCH_DELIVERIES", integer(&s.RelayBatchDeliveries, 1, 100_000), "2000", "Deliveries that a pass makes, at most; its first event is always taken whole.", false},
		{"RELAY_POLL", span(&s.RelayPoll), "2s", "How long the relay trusts that it would have been woken. At most 2s, since a notification is only a hint.", false},
		{"RELAY_SWEEP", span(&s.RelaySweep), "1m", "How often the relays of all processes are poked.", false},
		{"RELAY_BACKOFF", spanRange(&s.RelayBackoff), "2s..1m", "The wait after a failed pass, and of an event that failed; it doubles.", false},
		{"POISON_AFTER", integer(&s.PoisonAfter, 1, 1000), "5", "Failures of its own after which an event is set aside.", false},
		{"BACKLOG_ALERT", backlog(&s.BacklogAlert), "1000,5m", "A backlog of more rows, or an older one, raises an alert.", false},
		{"OUTBOX_MAX", integer(&s.OutboxMax, 1, 1<<31-1), "1000000", "Backlog at which posts of every tenant are refused.", false},
		{"OUTBOX_MAX_TENANT", integer(&s.OutboxMaxTenant, 1, 1<<31-1), "500000", "Backlog of its own at which a tenant's posts are refused.", false},
		{"MAX_WAITERS", integer(&s.MaxWaiters, 0, 100_000), "64", "Posts that may wait for their fan-out in a process at once.", false},
		{"IDEMPOTENCY_TTL", span(&s.IdempotencyTTL), "24h", "How long the answer to an `Idempotency-Key` is kept.", false},
	}
}

func (s *Settings) deliveryTable() []setting {
	return []setting{
		{"DELIVERY_TIMEOUT", span(&s.DeliveryTimeout), "15s", "The time of one attempt in all, where the endpoint sets none.", false},
		{"DELIVERY_TIMEOUT_MAX", span(&s.DeliveryTimeoutMax), "30s", "The most of it that an endpoint may set.", false},
		{"CONNECT_TIMEOUT", span(&s.ConnectTimeout), "5s", "The part of it that connecting may take.", false},
		{"LEASE_MARGIN", span(&s.LeaseMargin), "10s", "How much longer than its attempt a lease lasts.", false},
		{"RETRY_SCHEDULE", schedule(&s.RetrySchedule), "5s,5m,30m,2h,5h,10h*12", "The 17 gaps between the 18 tries of a delivery. None may be shorter than the one before.", false},
		{"RETRY_JITTER", share(&s.RetryJitter, 0, 0.5), "0.1", "How far a gap is varied at random, either way.", false},
		{"RETRY_AFTER_MAX", span(&s.RetryAfterMax), "10h", "The longest `Retry-After` of a receiver that is followed.", false},
		{"DEFERRALS_MAX", integer(&s.DeferralsMax, 0, 1000), "20", "Times that a receiver may put a delivery off in a run without a try being spent.", false},
		{"RUN_MAX_AGE", span(&s.RunMaxAge), "192h", "The age at which a run of tries ends, whatever is left of it.", false},
		{"INTERNAL_BACKOFF", internalBackoff(&s.InternalBackoff), "1m..1h,24h", "The wait after an error of the gateway's own, doubling, and after how much of it the delivery is given up.", false},
		{"ROTATION_GRACE", spanUpTo(&s.RotationGrace, 168*time.Hour), "24h", "How long the old secret signs on after a rotation, where the caller does not say.", false},
	}
}

func (s *Settings) healthTable() []setting {
	return []setting{
		{"FAILING_DELAY", span(&s.FailingDelay), "5m", "How far out a new delivery is put while its endpoint is failing.", false},
		{"DISABLE_AFTER", span(&s.DisableAfter), "120h", "How long an endpoint may fail before it is disabled.", false},
		{"DISABLE_MAX_GAP", span(&s.DisableMaxGap), "24h", "A failure that comes later than this after the one before starts the streak anew.", false},
		{"BREAKER_FAILURES", integer(&s.BreakerFailures, 1, 10_000), "10", "Failures in a row that open an endpoint's breaker.", false},
		{"BREAKER_COOLDOWN", spanRange(&s.BreakerCooldown), "30s..5m", "How long it stays open; it doubles.", false},
		{"EGRESS_OUTAGE", outage(&s.EgressOutage), "20,0.9,1h", "With so many endpoints tried, and more than this share of them out of reach, within this time, the outage is taken for ours: none is disabled.", false},
	}
}

func (s *Settings) workerTable() []setting {
	return []setting{
		{"WORKERS", integer(&s.Workers, 1, 10_000), "1000", "Attempts that a process has in flight, at most.", false},
		{"HEARTBEAT", span(&s.Heartbeat), "2s", "How often a process shows that it lives.", false},
		{"DEAD_AFTER", span(&s.DeadAfter), "10s", "Silence after which it is taken for dead and its work is taken over.", false},
		{"RECONCILE", reconcile(&s.Reconcile), "1m,2m", "How often lost jobs are looked for, and how overdue a delivery must be.", false},
		{"JOB_TIMEOUT", span(&s.JobTimeout), "45s", "How long a job may run, its attempt included.", false},
		{"RESCUE_AFTER", span(&s.RescueAfter), "2m", "When the job queue frees a job whose process is gone, should nobody have taken it over.", false},
		{"SHUTDOWN_GRACE", span(&s.ShutdownGrace), "30s", "How long attempts in flight may go on after the order to stop.", false},
		{"SHUTDOWN_MARGIN", span(&s.ShutdownMargin), "2s", "How much longer the process may take to record and to end.", false},
	}
}

func (s *Settings) retentionTable() []setting {
	return []setting{
		{"RETENTION_EVENTS", span(&s.RetentionEvents), "168h", "How long an event is kept after its fan-out. The backlog, and events with an open delivery, always stay.", false},
		{"RETENTION_DELIVERIES", span(&s.RetentionDeliveries), "720h", "How long deliveries and attempts are kept.", false},
		{"RETENTION_HELD", span(&s.RetentionHeld), "168h", "How long a held delivery waits for its endpoint.", false},
		{"HELD_MAX", integer(&s.HeldMax, 1, 1<<31-1), "100000", "Held deliveries of an endpoint; past it the oldest is cancelled.", false},
		{"JOBS_COMPLETED", span(&s.JobsCompleted), "24h", "How long a completed job is kept.", false},
		{"JOBS_COMPLETED_MAX", integer(&s.JobsCompletedMax, 1, 1<<31-1), "1000000", "How many completed jobs are kept.", false},
		{"JOBS_DISCARDED", span(&s.JobsDiscarded), "168h", "How long a discarded or cancelled job is kept.", false},
	}
}

func (s *Settings) egressTable() []setting {
	return []setting{
		{"EGRESS_ALLOW", texts(&s.EgressAllow, "list of addresses"), "", "Addresses that may be reached though the guard would refuse them.", false},
		{"EGRESS_DENY", texts(&s.EgressDeny, "list of addresses"), "", "Addresses that may not be reached though the guard would let them pass. It beats `EGRESS_ALLOW`.", false},
		{"EGRESS_PORTS", ports(&s.EgressPorts), "80,443,1024-65535", "Ports that may be reached.", false},
		{"EGRESS_RESOLVER", addrPort(&s.EgressResolver), "", "The resolver of receivers' names. Empty: the machine's own.", false},
		{"EGRESS_ALLOW_LOOPBACK", boolean(&s.EgressAllowLoopback), "false", "Lets deliveries reach this machine itself. For development only.", false},
		{"ALLOW_HTTP", boolean(&s.AllowHTTP), "false", "Lets an endpoint's URL be http. For development only.", false},
	}
}
