// Package idempotency makes a request that is sent twice happen once.
//
// It owns the table gateway.idempotency_keys. A caller names a request by a key; its answer is stored in the very
// transaction that carries the request out, and a repeat gets that answer. So there is nothing to repair after a crash:
// either both are there or neither is.
//
//	first request ──► lock the key ──► carry out ──► store the answer ──► commit
//	a repeat      ──► waits, or hears that the first is in progress ──► the stored answer
//	other content under the key ──► ErrReused
//
// The lock is an advisory one on the key, held until the end of the transaction, and is taken before anything else: it
// costs no row, and ends with its connection. Keys that fall on one lock only wait for each other.
//
// No request holds anything when it takes the lock, and none takes two, so no ring of them can come about. Who waits holds
// a connection meanwhile, which is why the wait is short, and why the request itself must never need a second one.
//
// Only what succeeded is stored: an error leaves nothing, and the key is free for the next try. What is stored may hold a
// secret, so it is sealed, and its fingerprint names who asked: nobody else gets it. The package knows nothing of HTTP but
// that an answer has a status, headers and a body.
package idempotency
