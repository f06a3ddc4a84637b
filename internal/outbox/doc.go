// Package outbox accepts events and hands each of them over exactly once.
//
// It owns the table gateway.events: appending to it (Writer), reading from it (Reader), and the relay, which
// claims the rows that nobody has handed over yet and gives them to its routers. A router writes rows of its
// own, in the same transaction that marks the events; so either all of it happened or nothing did.
//
//	pending ──── a pass commits ────► fanned_out
//	   │  ▲
//	   │  └────── requeue ──────┐
//	   └── its own fifth failure ──► poisoned
//
// The relay remembers nothing between passes. Sequence numbers are given out when a row is written, but
// transactions commit in any order: a reader that remembers how far it read would never see a row with a lower
// number that commits later. So a pass claims whatever is not marked, wherever it stands, and SKIP LOCKED keeps
// two passes from claiming one row.
//
// The package is a bus: it knows no endpoint and no delivery, and refuses to learn of them.
package outbox
