package main

import (
	"context"
	"log/slog"
	"time"
)

// Stages lets tests start and end parts.
type Stages struct{ inner *stages }

// NewStages makes them, with a log that nobody reads.
func NewStages() Stages { return Stages{newStages(slog.New(slog.DiscardHandler))} }

// Start is start.
func (s Stages) Start(ctx context.Context, name string, bound time.Duration, run func(context.Context) error) {
	s.inner.start(ctx, name, bound, run)
}

// Wait is wait.
func (s Stages) Wait(ctx context.Context) error { return s.inner.wait(ctx) }

// Stop is stop.
func (s Stages) Stop() error { return s.inner.stop() }
