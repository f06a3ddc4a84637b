package settings_test

import (
	"strings"
	"testing"
)

func TestContradictionsAreRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		env  string // variables without their prefix, with spaces between; all else is by default
		want string // in the only problem; empty: it is accepted
	}{
		{"poll at its bound", "RELAY_POLL=2s", ""},
		{"poll past it", "RELAY_POLL=2001ms", "RELAY_POLL must be at most 2s"},
		{"sweep as often as the poll", "RELAY_SWEEP=2s", ""},
		{"sweep more often", "RELAY_SWEEP=1s", "RELAY_SWEEP must be at least RELAY_POLL"},
		{"one tenant may fill all", "OUTBOX_MAX=500000", ""},
		{"one tenant could stop all", "OUTBOX_MAX=499999", "OUTBOX_MAX_TENANT must be at most OUTBOX_MAX"},
		{"alert at the very end", "BACKLOG_ALERT=499999,5m", ""},
		{"alert after the end", "BACKLOG_ALERT=500000,5m", "BACKLOG_ALERT must have fewer rows"},
		{"keys as long as events", "IDEMPOTENCY_TTL=168h", ""},
		{"keys longer than events", "IDEMPOTENCY_TTL=169h", "IDEMPOTENCY_TTL must be at most RETENTION_EVENTS"},

		{"16 gaps", "RETRY_SCHEDULE=5s,5m,30m,2h,5h,10h*11 DISABLE_AFTER=100h", "RETRY_SCHEDULE has 16 gaps, and 18 tries have 17"},
		{"18 gaps", "RETRY_SCHEDULE=5s,5m,30m,2h,5h,9h*12,10h", "RETRY_SCHEDULE has 18 gaps"},
		{"a falling gap", "RETRY_SCHEDULE=5m,5s,30m,2h,5h,10h*12", "RETRY_SCHEDULE has a gap that is shorter"},
		{"equal gaps", "RETRY_SCHEDULE=7h30m*17 RETRY_AFTER_MAX=7h30m", ""},
		{"Retry-After at the longest gap", "RETRY_AFTER_MAX=10h", ""},
		{"Retry-After past it", "RETRY_AFTER_MAX=10h1s", "RETRY_AFTER_MAX must be at most the schedule's longest gap"},
		{"a run as short as the jittered schedule", "RUN_MAX_AGE=141h", ""},
		{"a run shorter than that", "RUN_MAX_AGE=140h", "RUN_MAX_AGE must be longer than the schedule with its jitter"},
		{"without jitter it may be shorter", "RUN_MAX_AGE=128h RETRY_JITTER=0", ""},
		{"events kept as short as the schedule", "RETENTION_EVENTS=141h", ""},
		{"events kept shorter", "RETENTION_EVENTS=140h", "RETENTION_EVENTS must be longer than the schedule"},
		{"gives up before it waits", "INTERNAL_BACKOFF=1m..2h,1h", "INTERNAL_BACKOFF must not wait longer"},
		{"gives up after the run", "INTERNAL_BACKOFF=1m..1h,193h", "INTERNAL_BACKOFF must give up before the run ends"},

		{"connecting takes it all", "CONNECT_TIMEOUT=15s", ""},
		{"connecting takes longer than all", "CONNECT_TIMEOUT=16s", "CONNECT_TIMEOUT must be at most DELIVERY_TIMEOUT"},
		{"an attempt past its most", "DELIVERY_TIMEOUT=31s", "DELIVERY_TIMEOUT must be at most DELIVERY_TIMEOUT_MAX"},
		{"a job just longer than an attempt", "JOB_TIMEOUT=30001ms", ""},
		{"a job as long as an attempt", "JOB_TIMEOUT=30s", "JOB_TIMEOUT must be longer than DELIVERY_TIMEOUT_MAX"},
		{"rescue at lease and margin", "RESCUE_AFTER=50s", ""},
		{"rescue before it", "RESCUE_AFTER=49s", "RESCUE_AFTER must be at least the longest lease"},
		{"rescue before a job ends", "RESCUE_AFTER=60s JOB_TIMEOUT=61s", "RESCUE_AFTER must be at least JOB_TIMEOUT"},
		{"no margin", "LEASE_MARGIN=0s", "LEASE_MARGIN \"0s\" is no time at all"},

		{"disabled with the last try", "DISABLE_AFTER=127h35m5s", ""},
		{"disabled after the last try", "DISABLE_AFTER=127h35m6s", "DISABLE_AFTER must be at most the whole of the schedule"},
		{"a gap of the longest step", "DISABLE_MAX_GAP=11h", ""},
		{"a gap shorter than the longest step", "DISABLE_MAX_GAP=10h59m", "DISABLE_MAX_GAP must be at least the schedule's longest gap"},
		{"a gap as long as the rule", "DISABLE_MAX_GAP=120h", "DISABLE_MAX_GAP must be shorter than DISABLE_AFTER"},
		{"put out past the gap", "FAILING_DELAY=24h", "FAILING_DELAY must be shorter than DISABLE_MAX_GAP"},
		{"a breaker open past the gap", "BREAKER_COOLDOWN=30s..24h", "BREAKER_COOLDOWN must end below DISABLE_MAX_GAP"},

		{"dead at two beats", "DEAD_AFTER=4s", "DEAD_AFTER must be longer than two heartbeats"},
		{"dead just after", "DEAD_AFTER=4001ms", ""},
		{"rescue before the take-over", "DEAD_AFTER=2m RECONCILE=1m,3m", "RESCUE_AFTER must be longer than DEAD_AFTER"},
		{"lost before it is dead", "RECONCILE=1m,10s", "RECONCILE must call a delivery lost only after DEAD_AFTER"},
		{"a pool of three", "DATABASE_POOL=3", "DATABASE_POOL is too small"},
		{"a pool of four", "DATABASE_POOL=4", ""},

		{"deliveries kept as long as a run", "RETENTION_DELIVERIES=192h", "RETENTION_DELIVERIES must be longer than RUN_MAX_AGE"},
		{"deliveries kept just longer", "RETENTION_DELIVERIES=193h", ""},
		{"deliveries kept shorter than events", "RETENTION_EVENTS=721h", "RETENTION_DELIVERIES must be at least RETENTION_EVENTS"},
		{"deliveries kept shorter than held ones", "RETENTION_HELD=721h", "RETENTION_DELIVERIES must be at least RETENTION_HELD"},

		{"one port for both", "LISTEN=:80 OPS_LISTEN=:80", "OPS_LISTEN must differ from LISTEN"},
		{"any port for both", "LISTEN=127.0.0.1:0 OPS_LISTEN=127.0.0.1:0", ""},
		{"a tenant's tokens as an operator's", "AUTH_AUDIENCE=gateway-admin", "AUTH_AUDIENCE must not be gateway-admin"},
		{"another kind of database", "DATABASE_URL=mysql://db/x", "DATABASE_URL is neither a postgres:// URL"},
		{"a DSN", "DATABASE_URL=host=/run/pg", ""},
		{"a direct way alone", "DATABASE_DIRECT_URL=postgres://db/x", "DATABASE_DIRECT_URL is set without DATABASE_URL"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var env []string
			for pair := range strings.FieldsSeq(test.env) {
				env = append(env, "GATEWAY_"+pair)
			}
			_, err := load(env...)
			if test.want == "" {
				if err != nil {
					t.Errorf("refused:\n%v", err)
				}
				return
			}
			if got := problem(t, err); !strings.Contains(got, test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAProblemNamesBothSidesAndTheirOrigins(t *testing.T) {
	t.Parallel()
	_, err := load("GATEWAY_CONNECT_TIMEOUT=20s")
	want := "CONNECT_TIMEOUT must be at most DELIVERY_TIMEOUT, of which it is a part " +
		"(CONNECT_TIMEOUT 20s from GATEWAY_CONNECT_TIMEOUT, DELIVERY_TIMEOUT 15s by default). Lower CONNECT_TIMEOUT to 15s or less."
	if got := problem(t, err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheAdviceCures(t *testing.T) {
	t.Parallel()
	// What "Raise X to Y" and "Lower X to Y" name is accepted.
	for _, env := range []string{"RESCUE_AFTER=1s", "CONNECT_TIMEOUT=16s", "RELAY_POLL=1h", "RUN_MAX_AGE=130h", "RETENTION_EVENTS=130h",
		"DISABLE_MAX_GAP=6h", "RETRY_AFTER_MAX=11h", "DISABLE_AFTER=130h", "JOB_TIMEOUT=10s", "RETENTION_DELIVERIES=180h"} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			_, err := load("GATEWAY_" + env)
			if err == nil {
				t.Fatal("accepted")
			}
			name, _, _ := strings.Cut(env, "=")
			var to string
			for line := range strings.SplitSeq(err.Error(), "\n") {
				for _, verb := range []string{"Raise ", "Lower "} {
					if _, advice, ok := strings.Cut(line, verb+name+" to "); ok {
						to, _, _ = strings.Cut(advice, " ")
					}
				}
			}
			if _, err := load("GATEWAY_" + name + "=" + to); err != nil {
				t.Errorf("with %s=%q as told:\n%v", name, to, err)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"EGRESS_ALLOW_LOOPBACK=true":          "EGRESS_ALLOW_LOOPBACK is on",
		"ALLOW_HTTP=true":                     "ALLOW_HTTP is on",
		"EGRESS_ALLOW=10.0.0.0/8":             "EGRESS_ALLOW opens addresses",
		"DATABASE_POOL=9":                     "DATABASE_POOL is small",
		"DATABASE_POOL=10":                    "",
		"PUBLIC_URL=http://hooks.example.com": "PUBLIC_URL is http",
		"PUBLIC_URL=http://127.0.0.1:8080":    "",
		"PUBLIC_URL=http://localhost:8080":    "",
	}
	for pair, want := range tests {
		s, err := load("GATEWAY_" + pair)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(s.Warnings(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s warns %q, want %q", pair, got, want)
		}
	}
}
