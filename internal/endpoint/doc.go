// Package endpoint owns the receivers of events: their rows, their globs, their secrets and headers, and the answer
// to which of them gets an event.
//
// It owns the tables gateway.endpoints, gateway.endpoint_secrets and, with internal/delivery, gateway.endpoint_state:
// here a row of it is made, locked and read for an endpoint's health; what moves with each attempt is delivery's.
//
//	enabled ──pause──► paused          an endpoint that is paused or disabled gets its deliveries held
//	   │  ▲               │
//	   │  └──── resume ───┘
//	   └─ 410 (gone), five days of failing (failing), by hand (manual) ──► disabled ──enable──► enabled
//
// Every change raises the version of the endpoint, which is its ETag and the key of what is cached of it, and
// gateway.tenants.config_version, in one transaction; a Directory reads the latter in the pass's own transaction and
// loads anew what is older, so that an endpoint which existed before an event was posted always gets it.
//
// Locks are taken in this order: endpoint_state (of whatever touches an endpoint's state), the tenant's row, the
// endpoint's row.
//
// The package opens no connection to a receiver, and refuses to move deliveries: internal/delivery does, when it finds
// an endpoint paused, disabled or gone.
package endpoint
