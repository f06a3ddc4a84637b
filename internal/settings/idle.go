package settings

import "slices"

// idle are the settings that are read and checked, and that nothing goes by yet: what they bound is still to come. The
// docs and a warning at the start say so, so that nobody relies on one.
var idle = [...]string{
	"AUTH_JWKS_URL", "BACKLOG_ALERT", "BREAKER_COOLDOWN", "BREAKER_FAILURES", "CORS_ORIGINS", "DELIVERY_TIMEOUT", "DELIVERY_TIMEOUT_MAX",
	"DISABLE_AFTER", "DISABLE_MAX_GAP", "EGRESS_OUTAGE", "HELD_MAX", "JOBS_COMPLETED_MAX", "MAX_WAITERS", "OUTBOX_MAX", "OUTBOX_MAX_TENANT",
	"RETENTION_DELIVERIES", "RETENTION_EVENTS", "RETENTION_HELD",
}

// Idle returns the settings that somebody has set and that nothing goes by yet.
func (s *Settings) Idle() []string {
	var set []string
	for _, name := range idle {
		if s.origins[name].Source != FromDefault {
			set = append(set, name)
		}
	}
	return set
}

// told is what a setting is, as the docs tell it.
func (t setting) told() string {
	if slices.Contains(idle[:], t.name) {
		return t.about + " **Nothing goes by it yet.**"
	}
	return t.about
}
