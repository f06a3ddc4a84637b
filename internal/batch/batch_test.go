package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/sallyport-dev/sallyport/internal/batch"
)

func TestBatcher(t *testing.T) {
	t.Parallel()

	t.Run("calls that come while one is under way are the next one, each with its own result", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var sizes []int
			gate := make(chan struct{})
			b := batch.New(10, func(_ context.Context, ins []int) ([]int, error) {
				sizes = append(sizes, len(ins))
				<-gate
				outs := make([]int, len(ins))
				for i, in := range ins {
					outs[i] = in * in
				}
				return outs, nil
			})
			done := make(chan bool, 16)
			call := func(n int) {
				go func() {
					out, err := b.Do(t.Context(), n)
					done <- err == nil && out == n*n
				}()
			}
			call(0)
			synctest.Wait()
			for n := range 15 {
				call(n + 1)
			}
			synctest.Wait()
			close(gate)
			for range 16 {
				if !<-done {
					t.Error("a call got another's result")
				}
			}
			if len(sizes) != 3 || sizes[0] != 1 || sizes[1] != 10 || sizes[2] != 5 {
				t.Errorf("batches of %v", sizes)
			}
		})
	})

	t.Run("a failing batch fails its callers, and nobody after", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("broken")
		n := 0
		b := batch.New(10, func(_ context.Context, ins []int) ([]int, error) {
			if n++; n == 1 {
				return nil, broken
			}
			return ins, nil
		})
		if _, err := b.Do(t.Context(), 1); !errors.Is(err, broken) {
			t.Errorf("the first: %v", err)
		}
		if out, err := b.Do(t.Context(), 2); err != nil || out != 2 {
			t.Errorf("the second: %d, %v", out, err)
		}
	})

	t.Run("a caller that gives up leaves its batch to the others", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		b := batch.New(10, func(ctx context.Context, ins []int) ([]int, error) {
			<-gate
			return ins, ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { _, err := b.Do(ctx, 1); first <- err }()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
		close(gate)
		if out, err := b.Do(t.Context(), 2); err != nil || out != 2 {
			t.Errorf("the second: %d, %v", out, err)
		}
	})

	t.Run("too few results are an error, not another's result", func(t *testing.T) {
		t.Parallel()
		b := batch.New(10, func(context.Context, []int) ([]int, error) { return nil, nil })
		if _, err := b.Do(t.Context(), 1); err == nil {
			t.Error("no error")
		}
	})
}
