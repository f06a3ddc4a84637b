package sallyport

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls the API for the tenant that its token speaks for.
type Client struct{ *transport }

// Admin calls the API for the operator of a gateway.
type Admin struct{ *transport }

// New returns a client of the gateway at baseURL (scheme and host, with a path if a proxy adds one), for the tenant of
// the token. It connects to nothing.
func New(baseURL, token string, options ...Option) (*Client, error) {
	t, err := newTransport(baseURL, token, options)
	if err != nil {
		return nil, err
	}
	return &Client{t}, nil
}

// NewAdmin returns a client for the operator; its token is one of an operator's.
func NewAdmin(baseURL, token string, options ...Option) (*Admin, error) {
	t, err := newTransport(baseURL, token, options)
	if err != nil {
		return nil, err
	}
	return &Admin{t}, nil
}

// Option changes how a client calls.
type Option func(*transport)

// WithHTTPClient sends requests through a client of yours. The default one waits 30 s for an answer, keeps connections,
// and follows no redirects.
func WithHTTPClient(c *http.Client) Option { return func(t *transport) { t.http = c } }

// WithUserAgent names your program in the header User-Agent, in front of this package's own.
func WithUserAgent(name string) Option {
	return func(t *transport) { t.agent = name + " " + t.agent }
}

// WithRetries sets how often what is safe to repeat is repeated, 3 times by default; 0 turns it off. The wait before
// each is random, up to first at the beginning, doubling, at most longest: 200 ms and 5 s by default. It comes on
// top of a Retry-After of at most 30 s; after a longer one the call returns, and the Problem tells it.
func WithRetries(times int, first, longest time.Duration) Option {
	return func(t *transport) { t.retry = retry{times: times, first: first, longest: longest} }
}

// WithObserver has every request told of when its answer has come or failed, retried ones too; for logs and metrics. It
// is called on the goroutine of the call.
func WithObserver(observe func(Exchange)) Option { return func(t *transport) { t.observe = observe } }

// Exchange is one request over the wire and what became of it.
type Exchange struct {
	Method    string
	Path      string // without the query
	Try       int    // 1, or more when it was repeated
	Status    int    // 0 if there was no answer
	RequestID string // of the answer, for the gateway's log
	Took      time.Duration
	Err       error // why there was no answer
}

func newTransport(baseURL, token string, options []Option) (*transport, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sallyport: the base URL: %w", err)
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("sallyport: the base URL %q is not like https://gateway.example.com", baseURL)
	case u.User != nil:
		return nil, errors.New("sallyport: the base URL holds a user name; credentials go into the token")
	case token == "" || strings.ContainsAny(token, " \r\n\t"):
		return nil, errors.New("sallyport: the token is empty or holds white space")
	}
	t := &transport{
		base: strings.TrimSuffix(baseURL, "/") + "/", token: token, agent: "sallyport-go",
		http: &http.Client{
			Timeout:       30 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		retry: retry{times: 3, first: 200 * time.Millisecond, longest: 5 * time.Second},
	}
	for _, o := range options {
		o(t)
	}
	return t, nil
}
