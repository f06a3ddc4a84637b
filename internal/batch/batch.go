// Package batch makes one call out of calls that come together.
//
// It is a group commit: while one batch is under way, later callers collect; when it ends, they are the next
// batch. A lone caller does not wait. Each caller gets its own result; the package knows nothing of what a
// batch does.
package batch

import (
	"context"
	"fmt"
	"sync"
)

// Batcher collects calls. One batch is under way at a time.
type Batcher[In, Out any] struct {
	most int
	do   func(context.Context, []In) ([]Out, error)

	mu      sync.Mutex
	waiting []*call[In, Out]
	running bool
}

type call[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{}
}

// New returns a batcher that gives do at most `most` calls at once. do returns one result for each call, in
// their order, or an error for all of them; it bounds its own time, since it outlives any one caller.
func New[In, Out any](most int, do func(context.Context, []In) ([]Out, error)) *Batcher[In, Out] {
	return &Batcher[In, Out]{most: most, do: do}
}

// Do returns the result of one call, or the error of its batch, or ctx's error if that ends first; the call may
// then still be carried out.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	c := &call[In, Out]{in: in, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	if !b.running {
		b.running = true
		go b.run(context.WithoutCancel(ctx))
	}
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.out, c.err
	case <-ctx.Done():
		var none Out
		return none, ctx.Err()
	}
}

// run works off batches until nobody waits.
func (b *Batcher[In, Out]) run(ctx context.Context) {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), b.most)
		if n == 0 {
			b.running = false
			b.mu.Unlock()
			return
		}
		calls := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.mu.Unlock()

		ins := make([]In, n)
		for i, c := range calls {
			ins[i] = c.in
		}
		outs, err := b.do(ctx, ins)
		if err == nil && len(outs) != n {
			err = fmt.Errorf("a batch of %d calls returned %d results", n, len(outs))
		}
		for i, c := range calls {
			if c.err = err; err == nil {
				c.out = outs[i]
			}
			close(c.done)
		}
	}
}
