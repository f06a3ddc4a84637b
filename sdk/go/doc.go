// Package sallyport is the Go client of Sallyport, a gateway that delivers webhooks: it publishes events and manages
// what receives them.
//
//	client, err := sallyport.New("https://gateway.example.com", os.Getenv("GATEWAY_TOKEN"))
//	receipt, err := client.PostEvent(ctx, sallyport.EventPost{Type: "invoice.paid", UID: "invoice-991-paid", Data: invoice})
//
// Client speaks for a tenant, Admin for the operator; each takes a token of its own kind. Both are safe for concurrent
// use. Lists are iterators that fetch page after page as they are ranged over.
//
// An error of the API is a *Problem: it has a stable code, a hint what to do, and the id of the request for the
// gateway's log. errors.Is knows the kinds that programs tell apart, as ErrNotFound or ErrConflict.
//
// What is safe to repeat is repeated by itself after a failure that may pass: reads, posts of events that have a UID,
// and every other POST, which is sent under an Idempotency-Key: yours, or one of its own. The waits are random and grow,
// and the gateway's Retry-After is kept. Changes by PATCH and DELETE are tried once: whoever calls knows best.
//
// New fields and new values of states may come with newer gateways. Unknown fields are ignored, and the states are
// strings, so that unknown values pass through.
//
// Receivers need only the sub-package webhook, which verifies deliveries and builds with the standard library alone.
package sallyport
