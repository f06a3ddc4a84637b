// Package api is the gateway's HTTP surface: it authenticates, decodes, calls, encodes, and turns errors into problem
// documents. Behind it the packages of the domain decide; here is no SQL and no policy.
//
// The contract is openapi.yaml at the root of the repository, and it is enforced from there rather than repeated: the
// routes, the scope that each operation needs, the audience of its tokens, the parameters and the bodies all come out
// of the document that the gateway also serves. A request goes through
//
//	request id → recover → log line → route → token → scope → media type and size → contract → handler
//
// and any of them may answer with a problem. What a handler needs to know of its caller is a field of the value that
// it is a method of (call), made anew for each request: no handler can be reached without one.
//
// The post of an event is read by hand (readEvent): its data must keep its bytes, and it is the one request that
// has to be fast.
//
// The package refuses to invent: a status, a title or a hint stands in one table (codes.go), and an error that no
// table knows answers 500 without its text, which goes to the log.
package api

//go:generate go tool oapi-codegen -config server.yaml ../../openapi.yaml
