package conductor

import (
	"context"
	"time"

	"github.com/openberth/berth/backoff"
)

// Clock is how a conductor reads the time and waits. New uses the clock of the machine.
type Clock struct {
	Now   func() time.Time     // the wall clock
	Since func() time.Duration // since this process started; monotonic
	// Pause waits before an attempt is repeated.
	Pause func(ctx context.Context, attempt int)
	// Wait waits until the channel is closed. After an error the step that waits is repeated later.
	Wait func(ctx context.Context, until <-chan struct{}) error
	// NewID returns UUIDs, for the requests of servers.
	NewID func() string
}

// pause waits 5 to 15 ms times the number of the attempt, or until ctx ends.
func pause(ctx context.Context, attempt int) {
	// The next call fails if ctx has ended.
	_ = backoff.Sleep(ctx, backoff.Around(time.Duration(attempt)*10*time.Millisecond))
}

// wait waits until the channel is closed, or until ctx ends; then it returns the error of ctx.
func wait(ctx context.Context, until <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-until:
		return nil
	}
}
