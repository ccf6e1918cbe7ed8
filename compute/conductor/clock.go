package conductor

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/backoff"
)

// Clock is how a conductor reads the time and waits. Functions that are nil are those of the machine.
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

// withDefaults returns a clock with the functions of the machine for those that are nil.
func (c Clock) withDefaults() Clock {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Since == nil {
		started := time.Now()
		c.Since = func() time.Duration { return time.Since(started) }
	}
	if c.Pause == nil {
		c.Pause = pause
	}
	if c.Wait == nil {
		c.Wait = wait
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	return c
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
