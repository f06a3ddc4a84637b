package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// Config is what the API is made of. All but the last four are needed.
type Config struct {
	Authority  *tenant.Authority
	Tenants    *tenant.Tenants
	Endpoints  *endpoint.Store
	Outbox     *outbox.Writer
	Events     *outbox.Reader
	Deliveries *delivery.Reader
	Keys       *idempotency.Keys

	// EndpointLimit is how many endpoints a tenant may have, for whoever asks; the store keeps to it.
	EndpointLimit int
	// KeyWait is how long a repeat of an event post waits for the first one under its idempotency key to commit: both then
	// get its receipt. 0: 5 s.
	KeyWait time.Duration
	// RotationGrace is how long a secret signs on after its rotation, where the request does not say; 0: 24 h.
	RotationGrace time.Duration
	// Checks are what readiness depends on, in the order in which they are told.
	Checks []Check
	// RequestTimeout bounds a request, but for sending its answer; 0: 10 s.
	RequestTimeout time.Duration
	// Log gets a line for each request; nil: slog.Default.
	Log *slog.Logger
}

// Check is one thing that must be so for the process to be of use.
type Check struct {
	Name  string
	Probe func(context.Context) error // its error is shown on the ops port; it has 2 s
}

// Server answers HTTP requests: those of the API, and those of an orchestrator.
type Server struct {
	cfg      Config
	public   *echo.Echo
	ops      *echo.Echo
	draining atomic.Bool
}

// New returns a server. It serves nothing yet: Public and Ops are handlers for whoever listens.
func New(cfg Config) (*Server, error) {
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 10 * time.Second
	}
	if cfg.KeyWait == 0 {
		cfg.KeyWait = 5 * time.Second
	}
	if cfg.RotationGrace == 0 {
		cfg.RotationGrace = 24 * time.Hour
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Server{cfg: cfg}
	s.public, s.ops = s.newEcho(), s.newEcho()
	contract, err := readContract()
	if err != nil {
		return nil, err
	}
	handlers := handlers()
	for _, o := range contract {
		handle, ok := handlers[o.id]
		if !ok {
			return nil, fmt.Errorf("openapi.yaml has an operation %q that nothing handles", o.id)
		}
		delete(handlers, o.id)
		on := s.public
		if o.ops {
			on = s.ops
		}
		on.Add(o.method, o.echoPath(), s.operate(o, handle))
		if o.method == http.MethodGet { // the same, and net/http keeps the body back
			on.Add(http.MethodHead, o.echoPath(), s.operate(o, handle))
		}
	}
	for id := range handlers {
		return nil, fmt.Errorf("%q is handled, but openapi.yaml has no such operation", id)
	}
	return s, nil
}

func (s *Server) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Binder = binder{}
	e.Use(s.begin)
	return e
}

// Public is the API.
func (s *Server) Public() http.Handler { return s.public }

// Ops is for the inside of a network: is the process alive, is it ready.
func (s *Server) Ops() http.Handler { return s.ops }

// Drain makes readiness say no from now on, so that no new requests are sent here. Those that come are answered.
func (s *Server) Drain() { s.draining.Store(true) }

// handler handles one operation, for one caller.
type handler func(*call) error

// call is one request of one operation by one caller, which may call it. Its methods are the handlers.
type call struct {
	*Server
	x      *exchange
	caller tenant.Caller // the zero value where no token is asked for
	query  url.Values
	tx     idempotency.Tx // of an operation that takes an Idempotency-Key, while it is carried out; see once
}

// operate is the way of a request to its handler: the route is known, the rest is not yet.
func (s *Server) operate(o *operation, handle handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		x, ok := c.(*exchange)
		if !ok {
			return errors.New("a route outside of begin")
		}
		x.op = o
		if err := s.authorize(x); err != nil {
			return err
		}
		query, err := readQuery(x)
		if err != nil {
			return err
		}
		here := &call{Server: s, x: x, query: query}
		if x.caller != nil {
			here.caller = *x.caller
		}
		if o.id == postEventID || o.id == postEventsID { // read their bodies by themselves
			return handle(here)
		}
		var body []byte
		if o.hasBody {
			if body, err = readBody(x); err != nil {
				return err
			}
			if err := checkText(body); err != nil {
				return err
			}
		}
		if err := s.validate(x, body); err != nil {
			return err
		}
		if o.keyed {
			return here.once(repeats{private: true}, body, handle)
		}
		return handle(here)
	}
}

// generated calls an operation through the generated code, which reads its parameters and writes its answer.
func generated(operation func(*ServerInterfaceWrapper, echo.Context) error) handler {
	return func(c *call) error {
		return operation(&ServerInterfaceWrapper{Handler: NewStrictHandler(c, nil)}, c.x)
	}
}

// handlers is every operation by its operationId. New holds it to the contract.
func handlers() map[string]handler {
	return map[string]handler{
		postEventID:          (*call).postEvent,
		postEventsID:         (*call).postEvents,
		"listEvents":         generated((*ServerInterfaceWrapper).ListEvents),
		"getEvent":           generated((*ServerInterfaceWrapper).GetEvent),
		"listDeliveries":     generated((*ServerInterfaceWrapper).ListDeliveries),
		"getDelivery":        generated((*ServerInterfaceWrapper).GetDelivery),
		"listAttempts":       generated((*ServerInterfaceWrapper).ListAttempts),
		"getAttempt":         generated((*ServerInterfaceWrapper).GetAttempt),
		"listEndpoints":      generated((*ServerInterfaceWrapper).ListEndpoints),
		"createEndpoint":     generated((*ServerInterfaceWrapper).CreateEndpoint),
		"getEndpoint":        generated((*ServerInterfaceWrapper).GetEndpoint),
		"updateEndpoint":     generated((*ServerInterfaceWrapper).UpdateEndpoint),
		"deleteEndpoint":     generated((*ServerInterfaceWrapper).DeleteEndpoint),
		"rotateSecret":       generated((*ServerInterfaceWrapper).RotateSecret),
		"endPreviousSecrets": generated((*ServerInterfaceWrapper).EndPreviousSecrets),
		"listTokens":         generated((*ServerInterfaceWrapper).ListTokens),
		"createToken":        generated((*ServerInterfaceWrapper).CreateToken),
		"revokeToken":        generated((*ServerInterfaceWrapper).RevokeToken),
		"getWhoami":          generated((*ServerInterfaceWrapper).GetWhoami),
		"listTenants":        generated((*ServerInterfaceWrapper).ListTenants),
		"createTenant":       generated((*ServerInterfaceWrapper).CreateTenant),
		"getTenant":          generated((*ServerInterfaceWrapper).GetTenant),
		"updateTenant":       generated((*ServerInterfaceWrapper).UpdateTenant),
		"listTenantTokens":   generated((*ServerInterfaceWrapper).ListTenantTokens),
		"createTenantToken":  generated((*ServerInterfaceWrapper).CreateTenantToken),
		"revokeAnyToken":     generated((*ServerInterfaceWrapper).RevokeAnyToken),
		"getJwks":            generated((*ServerInterfaceWrapper).GetJwks),
		"getOpenapi":         generated((*ServerInterfaceWrapper).GetOpenapi),
		"listProblems":       generated((*ServerInterfaceWrapper).ListProblems),
		"getProblem":         generated((*ServerInterfaceWrapper).GetProblem),
		"getLivez":           generated((*ServerInterfaceWrapper).GetLivez),
		"getHealthz":         generated((*ServerInterfaceWrapper).GetHealthz),
		"getReadyz":          generated((*ServerInterfaceWrapper).GetReadyz),
	}
}

// may says whether the caller holds a scope beyond the one that the operation needs.
func (c *call) may(scope string) bool { return c.caller.Allows(scope) }
