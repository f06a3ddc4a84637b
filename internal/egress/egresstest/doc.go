// Package egresstest holds what tests of outgoing requests need: a receiver that is scripted down to the byte,
// a resolver that knows nothing but what it is told, a certificate authority, and a last look at every socket
// that keeps a test from ever leaving the machine.
//
// It refuses to stand in for the client or its guard: tests run the real ones, against real sockets on
// loopback.
package egresstest
