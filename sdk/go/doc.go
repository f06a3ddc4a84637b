// Package sallyport is the Go client of Sallyport, a gateway that delivers webhooks: it publishes events and manages
// what receives them.
//
// Receivers need only its sub-package webhook, which verifies deliveries and builds with the standard library alone.
package sallyport
