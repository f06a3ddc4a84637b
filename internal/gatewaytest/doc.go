// Package gatewaytest runs the gateway as its users do: the built program, as a process of its own, over HTTP.
//
// Tests that kill it, restart it, run two of it, or hold it against other people's libraries use it. It refuses to
// reach into the process: what it knows comes from the command line and the API.
package gatewaytest
