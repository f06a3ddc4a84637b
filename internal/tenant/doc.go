// Package tenant says who may do what: it owns the tenants and the tokens that speak for them.
//
// It owns the tables gateway.tenants (but for config_version, which internal/endpoint raises too), gateway.tokens and
// gateway.auth_keys.
//
// There is one kind of credential: a JWT signed with Ed25519 that has a row in gateway.tokens under its jti. So a token
// can be listed, named, seen in use and revoked as an API key can. A tenant's token (audience gateway-api) names its
// tenant and holds scopes; an operator's (audience gateway-admin) names none and holds admin scopes. No token is both.
//
//	active ──suspend──► suspended ──resume──► active      a suspended tenant reads, but changes nothing
//
// What a process knows of tokens, tenants and keys is at most 30 seconds old, whatever happens: it is dropped on a
// notification, as a rule within the second, and read again after 30 seconds without one. With the database away, what
// is older is not relied on: Authenticate then fails with the database's error, which says nothing about the token.
//
// The package refuses to know endpoints and events, and checks no operation's scope: that is internal/api's, by the
// Caller that Authenticate returns.
package tenant
