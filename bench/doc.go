// Command bench measures the gateway on this machine: the built program, a PostgreSQL of its own with durable commits,
// a sink and a producer, all of them here.
//
//	make bench S=A      one endpoint, 32 connections in closed loops, until all is delivered
//	make bench S=B      200 events a second for 15 s, each counted from the moment it was due
//	make bench S=C      events for 20 endpoints each, closed loops
//
// Rates wobble with the machine, so a run measures the machine first, in the same minute: HMAC-SHA256 of 1 KiB and a
// POST over loopback. What survives is CPU milliseconds a delivery, gateway and PostgreSQL together, beside the cost of
// that HMAC. The last line of each scenario is for programs. Every run is bounded in count and time.
package main
