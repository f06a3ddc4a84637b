package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// newLog makes a log that writes to the process's standard error.
func newLog(out *output, level slog.Level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	w := wordsWriter{out}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// wordsWriter writes to standard error in turn with an output's own words.
type wordsWriter struct{ out *output }

func (w wordsWriter) Write(line []byte) (int, error) {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	return w.out.stderr.Write(line)
}

// serveHTTP serves until ctx ends. Requests in flight may then go on for a while, and are cut after it.
func serveHTTP(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	srv.BaseContext = func(net.Listener) context.Context { return base }
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := srv.Shutdown(within); err != nil {
		cut() // what still runs ends now
		if err := srv.Close(); err != nil {
			return fmt.Errorf("cut the requests at %s: %w", l.Addr(), err)
		}
	}
	<-ended
	return nil
}
