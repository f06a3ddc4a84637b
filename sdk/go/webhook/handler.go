package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// DefaultMaxBody is the most a Handler reads of a body, in bytes: 1 MiB, where the gateway's largest event has 288 KiB.
const DefaultMaxBody = 1 << 20

// Option changes what a Handler does.
type Option func(*handler)

// WithMaxBody has a Handler read at most n bytes of a body. It panics if n is not positive.
func WithMaxBody(n int64) Option {
	if n <= 0 {
		panic("webhook: the most to read of a body must be positive")
	}
	return func(h *handler) { h.maxBody = n }
}

// WithSeen has a Handler ask, before it hands an event over, whether the message with this webhook-id was worked off
// before. If so it answers 204 and hands nothing over; an error is answered with 500, and the message comes again.
//
// Keep the id in the same transaction as the work itself, and so in the handler's function, never in seen: a message
// that is marked first and fails afterwards would be lost when it comes again. Two copies may come at once; a unique
// key on the id decides that race. Keep ids for at least the 8 days that a delivery is retried; a replay has the id of
// the message that it repeats.
func WithSeen(seen func(ctx context.Context, id string) (bool, error)) Option {
	return func(h *handler) { h.seen = seen }
}

// WithLogger sets where a Handler logs what it refused and what failed, one line a request. Without it that is
// slog.Default(). Bodies and secrets are not logged.
func WithLogger(log *slog.Logger) Option {
	return func(h *handler) { h.log = log }
}

// Handler receives deliveries over HTTP: it reads the body once, under a limit, verifies it and gives the event to fn.
//
//	204  fn returned nil, or the message had been seen: the delivery is done
//	400  the message was refused, or its body could not be read; the answer tells the Code and the cause
//	405  it was not a POST
//	413  the body is larger than the limit
//	500  fn or seen failed: the message comes again. What they returned is logged, not answered
//
// The context of fn is the request's: it ends when the sender hangs up, so work that must outlast it needs its own.
// Nothing may read the request's body before, no middleware either.
func Handler(v *Verifier, fn func(ctx context.Context, e Event) error, opts ...Option) http.Handler {
	h := &handler{verifier: v, fn: fn, maxBody: DefaultMaxBody, log: slog.Default()}
	for _, opt := range opts {
		opt(h)
	}
	return h
}

type handler struct {
	verifier *Verifier
	fn       func(ctx context.Context, e Event) error
	seen     func(ctx context.Context, id string) (bool, error)
	maxBody  int64
	log      *slog.Logger
}

// ServeHTTP receives one delivery.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a webhook is a POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := h.read(w, r)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		h.log.WarnContext(ctx, "webhook refused", "code", "body_too_large", "limit", h.maxBody)
		http.Error(w, fmt.Sprintf("body_too_large: the body is larger than %d bytes", h.maxBody), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		h.log.WarnContext(ctx, "webhook refused", "code", "body_unreadable", "error", err)
		http.Error(w, "body_unreadable: the body could not be read whole", http.StatusBadRequest)
		return
	}
	event, id, err := h.verify(body, r.Header)
	if err != nil {
		h.log.WarnContext(ctx, "webhook refused", "code", Code(err), "error", err)
		http.Error(w, public(err), http.StatusBadRequest)
		return
	}
	if err := h.handle(ctx, id, event); err != nil {
		h.log.ErrorContext(ctx, "webhook failed", "id", id, "type", event.Type, "error", err)
		http.Error(w, "the event could not be handled: send it again later", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// read reads the body to its end or to the limit.
func (h *handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil { // a request that was built by hand
		return nil, nil
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
}

func (h *handler) verify(body []byte, header http.Header) (Event, string, error) {
	message, err := h.verifier.Verify(body, header)
	if err != nil {
		return Event{}, "", err
	}
	event, err := message.Event()
	return event, message.ID, err
}

func (h *handler) handle(ctx context.Context, id string, event Event) error {
	if h.seen != nil {
		seen, err := h.seen(ctx, id)
		if err != nil {
			return fmt.Errorf("webhook: look up whether the message was seen: %w", err)
		}
		if seen {
			return nil
		}
	}
	return h.fn(ctx, event)
}

// public is what a sender is told: the cause, without what was seen here, since anyone may ask.
func public(err error) string {
	var r *refusal
	if !errors.As(err, &r) {
		return "the message was refused"
	}
	return r.code + ": " + r.text
}
