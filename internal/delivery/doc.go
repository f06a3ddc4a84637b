// Package delivery takes an event to the endpoints that want it.
//
// It owns the tables deliveries, attempts, line, leases and processes: fan-out (the router that a relay pass
// calls), dispatch, the attempt itself, its verdict, the schedule, and what puts a delivery back in line when
// its process died. Every statement that writes River's table stands in riverjobs.go.
//
// # A delivery's life
//
//	         fan-out                     grant                      record
//	(event) ─────────► pending, in line ──────► pending, leased ─────────────► succeeded
//	   │                    ▲  ▲                      │
//	   │                    │  └── deferred, interrupted, internal: no try spent
//	   │                    └───── retrying, in line again at its time ◄── failed, tries left
//	   │                                              ├────────────────────► exhausted: the last try failed
//	   │                                              └────────────────────► rejected: 410, blocked, scope revoked
//	   └──► held: the endpoint is paused or disabled         cancelled: endpoint deleted, event erased
//
// An open delivery (pending, retrying) either has a row in the line, with the time it is due, or a lease; never
// both, never neither. The delivery row is the truth, its River job the alarm clock: a job whose delivery has
// ended, is held, is leased or is not yet due does not POST.
//
// # One job, two ways to start
//
// The pass that makes a delivery makes its job too, due later as a net. Right after its commit it tells the
// Dispatcher which endpoints have something due, and so does each batch that records results. One statement then
// grants leases to the next in line, the oldest due first, up to the endpoint's allowance and the process's
// free workers, and those attempts start at once. A job that rings asks in the same way. Without a lease the
// delivery keeps its place and the job snoozes: lines move when a lease is freed, never by polling.
//
// # Locks
//
// Whoever frees or grants a lease locks the endpoint_state rows first, in the order of their ids, in a statement
// of its own: the statement that looks for the next in line must have a snapshot younger than the lock. It uses
// statement_timestamp(), since now() is older than the lock.
//
// # What it refuses
//
// It holds no connection and no transaction while a POST is out, and it retries nothing by itself: a retry
// belongs to the job.
package delivery
