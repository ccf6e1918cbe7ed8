package conductor

import (
	"context"
	"time"
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

// UseClock replaces the clock and the source of ids. It must be called before all other methods.
func (c *Conductor) UseClock(clock Clock) {
	c.now, c.pause, c.wait, c.newID = clock.Now, clock.Pause, clock.Wait, clock.NewID
	c.presence.clock, c.started, c.runner.Now = clock.Since, clock.Now(), clock.Now
}

// Perform performs the first due step of a server and applies its event, for a caller that does not call Run. It
// returns the error of the step, which is due again then; nil also if no step is due.
func (c *Conductor) Perform(ctx context.Context, id string) error { return c.runner.Step(ctx, id) }
