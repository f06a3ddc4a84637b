package delivery_test

import (
	"testing"
	"time"
)

// BenchmarkDeliver is what a delivery takes from the outbox on, with the receiver in the same process: relay, grants,
// POST and record. Accepting is left out. The server is a test's: its commits are not durable.
func BenchmarkDeliver(b *testing.B) {
	in := install(b)
	rx := receive(b, status(200))
	in.endpoint(b, rx.URL)
	in.start(b, options{net: time.Hour})
	b.ResetTimer()
	in.exec(b, `insert into gateway.events (tenant_id, type, occurred_at, data, fingerprint)
		select $1, 'a.b', now(), convert_to('{"filler":"' || repeat('x', 1000) || '"}', 'UTF8'), '' from generate_series(1, $2::int)`, in.caller.Tenant, b.N)
	in.exec(b, `select pg_notify('gateway_events', '')`)
	in.eventually(b, func() string {
		rx.mu.Lock()
		defer rx.mu.Unlock()
		if len(rx.requests) < b.N {
			return "not all arrived"
		}
		return ""
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}
