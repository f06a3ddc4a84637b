package archtest

// exceptions is every place that may break a rule. Each says why there is no better way.
func exceptions() []exception {
	return []exception{
		{"sql-names-tenant", "internal/delivery/interrupt.go", "a process's leases are of all tenants; the rows it then changes are matched with theirs"},
		{"sql-names-tenant", "internal/delivery/line.go", "likewise: a process gives back its own leases"},
		{"sql-names-tenant", "internal/delivery/reconcile.go", "the reconciler works for all tenants, by endpoint, and answers to nobody outside"},
		{"sql-names-tenant", "internal/delivery/record.go", "the lock is on endpoints that the dispatcher was told of; it reads nothing"},
	}
}
