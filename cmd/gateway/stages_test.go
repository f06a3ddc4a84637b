package main_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gateway "github.com/sallyport-dev/sallyport/cmd/gateway"
)

func TestPartsEndInTheOppositeOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := gateway.NewStages()
		var ended []string // written by one part at a time: each ends before the next is told to
		for _, name := range []string{"pool", "workers", "relay", "intake"} {
			parts.Start(t.Context(), name, time.Minute, func(ctx context.Context) error {
				<-ctx.Done()
				<-time.After(10 * time.Second) // of the bubble's clock: what is in flight takes its time
				ended = append(ended, name)
				return nil
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := parts.Wait(ctx); err != nil {
			t.Errorf("wait: %v", err)
		}
		if err := parts.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if want := []string{"intake", "relay", "workers", "pool"}; !slices.Equal(ended, want) {
			t.Errorf("ended %v, want %v", ended, want)
		}
	})
}

func TestAPartThatEndsByItselfEndsAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"with an error":    {broken, "relay: broken"},
		"without an error": {nil, "relay: ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts := gateway.NewStages()
			parts.Start(t.Context(), "pool", time.Minute, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			parts.Start(t.Context(), "relay", time.Minute, func(context.Context) error { return test.err })
			err := parts.Wait(t.Context())
			if err == nil || err.Error() != test.want || test.err != nil && !errors.Is(err, broken) {
				t.Errorf("wait: %v, want %s", err, test.want)
			}
			_ = parts.Stop() // it tells the relay's error again
		})
	}
}

func TestTheEndOfAPartIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := gateway.NewStages()
		let := make(chan struct{})
		parts.Start(t.Context(), "pool", time.Minute, func(ctx context.Context) error { <-ctx.Done(); return nil })
		parts.Start(t.Context(), "workers", 30*time.Second, func(context.Context) error { <-let; return nil })
		began := time.Now()
		err := parts.Stop()
		if err == nil || !strings.Contains(err.Error(), "workers did not end within 30s") {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %s, want 30s", took)
		}
		close(let)
	})
}
