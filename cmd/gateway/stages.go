package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// stages are the parts of a process that run side by side. They are started one after the other, and end in the
// opposite order, each only once the one that was started after it has ended: intake, relay, workers, and last what
// they all stand on. Each has a bound on how long its end may take.
type stages struct {
	log     *slog.Logger
	running []*stage
	failed  chan error
	once    sync.Once
}

type stage struct {
	name   string
	bound  time.Duration // of its end, once it is told to
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func newStages(log *slog.Logger) *stages { return &stages{log: log, failed: make(chan error, 1)} }

// start runs a part until its context ends. A part that ends by itself, with an error or without, ends all of them:
// wait then returns. The context carries no end of the process's: only stop ends a part.
func (s *stages) start(ctx context.Context, name string, bound time.Duration, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	st := &stage{name: name, bound: bound, cancel: cancel, done: make(chan struct{})}
	s.running = append(s.running, st)
	go func() {
		defer close(st.done)
		st.err = run(ctx)
		if ctx.Err() == nil {
			err := st.err
			if err == nil {
				err = errors.New("ended by itself")
			}
			s.once.Do(func() { s.failed <- fmt.Errorf("%s: %w", name, err) })
		}
	}()
}

// wait returns when ctx ends, with nil, or when a part has ended that should not have.
func (s *stages) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// stop ends every part, the last one first, and returns what went wrong with their ends.
func (s *stages) stop() error {
	var wrong []error
	for _, st := range slices.Backward(s.running) {
		began := time.Now()
		st.cancel()
		timer := time.NewTimer(st.bound)
		select {
		case <-st.done:
			timer.Stop()
			if st.err != nil && !errors.Is(st.err, context.Canceled) {
				wrong = append(wrong, fmt.Errorf("end of %s: %w", st.name, st.err))
			}
			s.log.Debug("ended", "part", st.name, "ms", time.Since(began).Milliseconds())
		case <-timer.C:
			wrong = append(wrong, fmt.Errorf("%s did not end within %s", st.name, st.bound))
		}
	}
	s.running = nil
	return errors.Join(wrong...)
}
