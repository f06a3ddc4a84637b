// Package chaos kills the gateway and its database under load, and lets the checker count what became of it.
//
//	make chaos-short
//
// The tests are behind the build tag chaos: each takes a share of a minute, and wants the machine for itself.
package chaos
