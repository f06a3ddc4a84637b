package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

// received is what the receiver made of one request.
type received struct {
	event   webhook.Event
	attempt string // webhook-attempt
	at      time.Time
	err     error // why it was refused
}

// receiver is the built-in receiver of dev: it verifies each delivery as a customer's program would, with the SDK.
type receiver struct {
	listener net.Listener
	verifier atomic.Pointer[webhook.Verifier] // nil until the endpoint has its secret
	seen     chan received                    // a reader that is behind misses some
}

// newReceiver listens at a free port of this machine. Requests are answered once serve runs.
func newReceiver(ctx context.Context) (*receiver, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the receiver: %w", err)
	}
	return &receiver{listener: l, seen: make(chan received, 100)}, nil
}

func (r *receiver) url() string { return "http://" + r.listener.Addr().String() + "/webhooks" }

// trust has the receiver verify with a secret from now on.
func (r *receiver) trust(secret string) error {
	v, err := webhook.NewVerifier(secret)
	if err != nil {
		return fmt.Errorf("use the endpoint's secret: %w", err)
	}
	r.verifier.Store(v)
	return nil
}

// serve answers until ctx ends.
func (r *receiver) serve(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhooks", r.receive)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return serveHTTP(ctx, srv, r.listener, time.Second)
}

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	got := received{attempt: req.Header.Get("webhook-attempt"), at: time.Now()}
	defer func() {
		select {
		case r.seen <- got:
		default:
		}
	}()
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, webhook.DefaultMaxBody))
	v := r.verifier.Load()
	if err != nil || v == nil {
		got.err = errors.Join(err, errors.New("there is no endpoint of this run yet"))
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	message, err := v.Verify(body, req.Header)
	if err == nil {
		got.event, err = message.Event()
	}
	if err != nil {
		got.err = err
		http.Error(w, webhook.Code(err), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
