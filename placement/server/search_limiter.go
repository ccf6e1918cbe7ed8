package server

import (
	"context"
	"runtime"

	"github.com/openberth/berth/fault"
)

// What is in memory at one moment is bounded, whatever clients send: so many searches are under way, so many answers
// are too large to be sent at once, and so many bytes of large bodies are read and judged. A request beyond a bound
// waits; its client may leave.
const (
	searchesPerCore = 4  // searches take turns on a core; one that has to wait for its client gives its turn away
	maxStreams      = 64 // answers that are sent in parts
	maxLargeBodies  = 4  // largest bodies that are read and judged at one moment
)

// limiter are what only so many may have at one moment. A nil one is there for everybody.
type limiter chan struct{}

func newSearchLimiter() limiter { return make(limiter, searchesPerCore*runtime.GOMAXPROCS(0)) }

// acquire waits for a turn, until ctx ends.
func (t limiter) acquire(ctx context.Context) error {
	if t == nil {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "placement.server", "nobody waits any more for a turn: %w", ctx.Err())
	}
}

// release gives a turn back.
func (t limiter) release() {
	if t != nil {
		<-t
	}
}

// limited is a handler that searches, or reads much: it runs while it has a turn.
func limited(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		done := c.server.metrics.Wait()
		err := c.server.searches.acquire(c.ctx())
		done()
		if err != nil {
			return err
		}
		c.holdsSlot = true
		defer c.release()
		return handle(c)
	}
}

// release gives the turn away, if there is one: what comes next may take the client long.
func (c *call) release() {
	if c.holdsSlot {
		c.holdsSlot = false
		c.server.searches.release()
	}
}

// reacquire waits for a turn again.
func (c *call) reacquire() error {
	err := c.server.searches.acquire(c.ctx())
	c.holdsSlot = err == nil
	return err
}
