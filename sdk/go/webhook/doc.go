// Package webhook is for those who receive: it proves that a delivery came from the holder of the endpoint's secret,
// is recent, and has not been touched on the way. It needs the standard library alone.
//
// Most receivers need two calls:
//
//	verifier, err := webhook.NewVerifier(os.Getenv("WEBHOOK_SECRET"))
//	http.Handle("POST /webhooks", webhook.Handler(verifier, func(ctx context.Context, e webhook.Event) error { … }))
//
// Where a framework owns the request, give Verifier.Verify the raw body and the headers. Raw means the bytes as they
// came, before anything parses them: JSON that was parsed and written again is another body, with another signature.
//
// What to know of deliveries:
//   - They come at least once. The same message has the same webhook-id in every attempt: keep the ids that you have
//     worked off (WithSeen).
//   - They come in no promised order. Event.OccurredAt tells when the fact arose.
//   - Any 2xx answer ends a delivery; anything else has it tried again later. Answer within the endpoint's timeout
//     (15 seconds unless it was set), and do long work afterwards.
//   - While a secret is changed over, give NewVerifier the new and the old one. Either is enough.
//
// A message that is refused says why. Each cause has an exported error and a short code (Code), and the text tells
// what to do about it. Secrets are never part of it, only their fingerprints, as the gateway shows them.
//
// The scheme is that of Standard Webhooks: messages of other senders that follow it verify as well. What only the
// gateway sends is the shape of the body, which Message.Event reads.
package webhook
