package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"time"
)

// Defaults of Config.
const (
	DefaultConnectTimeout = 5 * time.Second
	DefaultTimeout        = 15 * time.Second // of a Request that has none
	DefaultMaxIdle        = 256
	DefaultMaxIdlePerHost = 50 // an endpoint's default ceiling of requests in flight
	MaxConnLife           = time.Minute
)

// Config says how a Client works. The zero value is usable: the strict policy and the system's resolver.
type Config struct {
	Policy   Policy
	Resolver Resolver // nil: NewResolver("")
	// ConnectTimeout is the limit for each of resolving, connecting and the TLS handshake, within the
	// request's own. 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// MaxIdle and MaxIdlePerHost bound the connections that wait for re-use, in all and for one host and port.
	// 0 means the default, below 0 that none waits.
	MaxIdle, MaxIdlePerHost int
	// ConnLife is how long after it was made a connection may be used again, idle or not: a change of a name's
	// addresses, or of the policy, takes hold after that. 0 means MaxConnLife, which is also the most.
	ConnLife time.Duration
	// RootCAs are the authorities that receivers' certificates are checked against; nil means the system's.
	RootCAs *x509.CertPool
	// Control, where set, is asked about every socket that the guard let pass, before it connects. Tests use it
	// to make sure that nothing leaves the machine.
	Control Control
}

// Client posts deliveries. It is safe for concurrent use.
type Client struct {
	guard   *guard
	dialer  *dialer
	pool    *pool
	buffers *buffers
}

// Request is one POST.
type Request struct {
	URL string // as ParseURL returned it; it is judged again
	// Header goes with it, but for what ReservedHeader names: those are the client's. Keys are canonical. It is
	// not changed.
	Header http.Header
	// Body is sent as it is. It must not change before Post has returned.
	Body []byte
	// Timeout bounds everything from the look-up of the name to the end of the answer; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Result is what came of a Post.
type Result struct {
	Status    int         // of the final answer, 200 to 599; 0 where none came
	Header    http.Header // a short list of the answer's headers, values cut to 256 printable bytes
	Body      []byte      // at most 16 KiB of the answer, 1 KiB of a 2xx; raw bytes, not decompressed
	Truncated bool        // there is, or may be, more than Body holds
	Sent      Sent
	Fault     Fault  // empty iff Status is set
	Reason    Reason // empty iff Fault is
	Class     Class  // why the guard refused; for the operator's log and metrics, never for a tenant
	Phases    Phases
	StartedAt time.Time // by this process's clock
}

// Phases are the times of a Post, each 0 where it did not take place. On a re-used connection that is so for
// the first three.
type Phases struct {
	DNS       time.Duration
	Connect   time.Duration // TCP, over all addresses tried
	TLS       time.Duration
	FirstByte time.Duration // from the start of writing to the first byte that came back
	Total     time.Duration
	Reused    bool   // the connection had carried a request before
	Protocol  string // "HTTP/1.1" or "h2"; empty where nothing was connected
}

// The protocols that a connection can speak, as ALPN and Phases name them.
const (
	protocolHTTP1 = "HTTP/1.1"
	protocolHTTP2 = "h2"
)

// NewClient returns a client. It connects to nothing and starts nothing. The error wraps ErrPolicy.
func NewClient(c Config) (*Client, error) {
	g, err := c.Policy.compile()
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if c.Resolver == nil {
		if c.Resolver, err = NewResolver(""); err != nil {
			return nil, err
		}
	}
	// The protocols in our order of preference; a receiver that names none of them speaks HTTP/1.1.
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs, NextProtos: []string{protocolHTTP2, "http/1.1"}}
	return &Client{
		guard:   g,
		dialer:  &dialer{guard: g, resolver: c.Resolver, limit: c.ConnectTimeout, tls: tlsConfig, extra: c.Control},
		pool:    newPool(c.MaxIdle, c.MaxIdlePerHost, c.ConnLife),
		buffers: newBuffers(),
	}, nil
}

func (c Config) withDefaults() Config {
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.MaxIdle == 0 {
		c.MaxIdle = DefaultMaxIdle
	}
	if c.MaxIdlePerHost == 0 {
		c.MaxIdlePerHost = DefaultMaxIdlePerHost
	}
	c.MaxIdle, c.MaxIdlePerHost = max(c.MaxIdle, 0), max(c.MaxIdlePerHost, 0)
	if c.ConnLife <= 0 || c.ConnLife > MaxConnLife {
		c.ConnLife = MaxConnLife
	}
	return c
}

// Close closes the idle connections; those in use follow as their requests end. A Post that starts after it
// fails.
func (c *Client) Close() { c.pool.close() }

// Idle returns how many connections wait for re-use.
func (c *Client) Idle() int { return c.pool.size() }

// Post sends a request and waits for its answer, within its time. At most one request reaches a wire, and Sent
// says whether one did. It never follows a redirect and never fails but in its Result. The end of ctx cuts it
// (FaultInterrupted), unless the status is there already.
func (c *Client) Post(ctx context.Context, r Request) (res Result) {
	began := time.Now()
	res = Result{Sent: SentNo, StartedAt: began}
	defer func() { res.Phases.Total = time.Since(began) }()

	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	t, urlErr := c.guard.parse(r.URL)
	if urlErr != nil {
		res.fail(&stepError{stepPrepare, &refusal{urlErr.class}}, false)
		return res
	}
	if err := ctx.Err(); err != nil {
		res.fail(err, true)
		return res
	}
	if !validHeaders(r.Header) {
		res.fail(errInvalidRequest, false)
		return res
	}
	o := c.post(ctx, &call{target: t, header: r.Header, body: r.Body, deadline: began.Add(timeout)}, &res.Phases)
	if o.sent {
		res.Sent = SentYes
	}
	res.Phases.FirstByte = o.firstByte
	if !o.answered {
		res.fail(o.err, over(ctx))
		return res
	}
	res.Status, res.Header, res.Body, res.Truncated = o.status, o.header, o.body, o.truncated
	return res
}

// over tells that ctx has ended, or is about to: a dialer that knows its deadline may be a moment ahead of it.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// fail says what went wrong, in the closed sets.
func (res *Result) fail(err error, interrupted bool) {
	at := stepPrepare
	var s *stepError
	if errors.As(err, &s) {
		at = s.step
	}
	res.Fault, res.Reason = diagnose(at, err, interrupted)
	var no *refusal
	if errors.As(err, &no) {
		res.Class = no.class
	}
}

// post sends the call over a connection from the pool, or a new one. It goes on with another connection only
// where the one it took had been used before and not a byte of the request left: see the package's comment.
// Each round uses up a pooled connection, so it ends.
func (c *Client) post(ctx context.Context, call *call, phases *Phases) outcome {
	key := poolKey{call.target.authority(), call.target.secure}
	for {
		conn := c.pool.take(key)
		reused := conn != nil
		phases.Reused, phases.Protocol = reused, ""
		if !reused {
			var err error
			if conn, err = c.connect(ctx, key, call, phases); err != nil {
				return outcome{err: err}
			}
		}
		phases.Protocol = protocolHTTP1
		if conn.shared() {
			phases.Protocol = protocolHTTP2
		}
		o := conn.exchange(ctx, call)
		c.pool.put(conn, o.reusable)
		if o.answered || o.sent || !reused || over(ctx) || !time.Now().Before(call.deadline) {
			return o
		}
	}
}

// connect makes a connection for the call and puts it on the pool's books.
func (c *Client) connect(ctx context.Context, key poolKey, call *call, phases *Phases) (*conn, error) {
	ctx, cancel := context.WithDeadline(ctx, call.deadline)
	defer cancel()
	sock, top, err := c.dialer.dial(ctx, call.target, phases)
	if err != nil {
		return nil, err
	}
	var w wire = &http1{sock: sock, top: top, buffers: c.buffers}
	if secure, ok := top.(*tls.Conn); ok && secure.ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		h2, err := newHTTP2(ctx, sock, secure, c.dialer.limit, c.buffers)
		if err != nil {
			_ = sock.Close()
			return nil, &stepError{stepTLS, err}
		}
		if !h2.reserve() {
			h2.close()
			return nil, &stepError{stepConnect, errNoAnswer}
		}
		w = h2
	}
	conn := c.pool.adopt(key, w)
	if conn == nil {
		return nil, &stepError{stepPrepare, errClientClosed}
	}
	return conn, nil
}
