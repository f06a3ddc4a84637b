// Package egress is the one door through which the gateway speaks to the outside: the HTTP client that
// posts a delivery, and the guard that decides where it may go.
//
// It owns the address policy, the canonical form of an endpoint's URL, name resolution, connections and
// their re-use, the bytes of a request, the limits on an answer, and the closed sets that say what went
// wrong. It refuses to decide what an answer means for a delivery (that is a verdict), to retry, to follow
// a redirect, to read a proxy from the environment, and to let a request out without a bound on its time.
//
// # The guard stands three times
//
//	ParseURL   at registration, and again at each Post: the text of the URL; no name is resolved
//	resolve    at each new connection: every answer is judged, one denied answer refuses the delivery
//	dial       on the socket, before it connects: the very address the kernel is about to use
//
// Each holds without the others. The last one must hold alone: a URL planted in the database or a resolver
// that lies reaches it, and nothing passes it. A connection that is re-used was judged when it was made,
// and lives for a minute at most, so a verdict is never older than that.
//
// # One Post, at most one request
//
// net/http's Transport resends by itself in some cases: on a re-used HTTP/1.1 connection that died, and on
// HTTP/2 after REFUSED_STREAM or GOAWAY. Leaving GetBody nil stops that, but then a connection that its
// peer closed while idle costs an attempt on which nothing was ever written, and whether something was
// written is known to unexported errors only. An attempt's row must say exactly that. So this package does
// its own pooling, writes HTTP/1.1 itself (answers are parsed by http.ReadResponse), and drives HTTP/2 by
// single connections (http.ClientConn), whose RoundTrip never repeats itself.
//
// A Post that finds out, on a re-used connection, that not one byte of its request was handed to the
// kernel goes on with another connection. That is no resend: no request exists on any wire until one byte
// left, so rows and requests stay equal, and only the phases are those of the connection that was used in
// the end. Once a byte left, Sent is yes and the Post ends with whatever comes, for better or worse.
package egress
