// Package signing owns the two kinds of keys the gateway holds, and what is made with them.
//
// A Secret is what a tenant's endpoint and its receiver share. A Signer makes the webhook-signature header from one
// or several of them, as Standard Webhooks has it: the HMAC-SHA256 of "id.timestamp.body" in base64, one
// signature a secret, so that a receiver can change over while old and new both sign.
//
// A Keyring is the operator's. It seals what may not stand in the database as plain text (secrets, an endpoint's
// own headers, private keys, stored answers) and opens it again. A seal is tied to what the bytes are for and to
// the row they belong to: sealed bytes that are copied to another row or column do not open.
//
// Nothing here prints key material: no String, log line, JSON or error. Only Secret.Text and NewKey hand it out.
//
// The package refuses to store anything, to know what an endpoint or a tenant is, and to decide how long an old
// secret signs on. Receivers verify with sdk/go/webhook, which shares no code with it: one file of vectors,
// computed by neither, holds the two to each other.
package signing
