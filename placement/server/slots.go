package server

import (
	"context"
	"runtime"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// These constants bound the memory that requests use at one time: the number of running searches, the number of answers
// that are sent in chunks, and the bytes of large bodies that are read and validated. A request beyond a bound waits
// until there is room or its client disconnects.
const (
	searchesPerCore = 4  // a search that waits for its client releases its slot
	maxStreams      = 64 // answers that are sent in chunks
	maxLargeBodies  = 4  // bodies of the maximum size that are read and validated at one time
)

// limiter bounds how many slots are held at one time. A nil limiter has no bound.
type limiter chan struct{}

func newSearchLimiter() limiter { return make(limiter, searchesPerCore*runtime.GOMAXPROCS(0)) }

// acquire waits for a slot. It returns fault.Unavailable if ctx ends before.
func (t limiter) acquire(ctx context.Context) error {
	if t == nil {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "the request ended while it waited for its turn: %w",
			ctx.Err())
	}
}

// release returns a slot.
func (t limiter) release() {
	if t != nil {
		<-t
	}
}

// newBounds returns the bounds of a server whose request bodies have at most maxBody bytes.
func newBounds(maxBody int64) bounds {
	return bounds{searches: newSearchLimiter(), turns: newSearchTurns(), counts: make(limiter, 1),
		streams: make(limiter, maxStreams), bodyBudget: rest.NewBodyBudget(maxLargeBodies*maxBody, maxBody)}
}

// bounds bound what all requests use together.
type bounds struct {
	searches   limiter          // the searches that run at one time
	turns      *fairQueue       // of the searches that take long
	counts     limiter          // the counts of headroom that run at one time
	streams    limiter          // the answers that are sent in chunks at one time
	bodyBudget *rest.BodyBudget // the memory of large request bodies
}

// A search begins in a slot of bounds.searches. Nearly all end there within milliseconds. One that has run for
// cheapSearch gives its slot back and goes on in turns of bounds.turns, which are fewer than the cores, so cheap
// searches always have a part of the machine, however many others there are. What a search costs is measured, because
// it cannot be read from the query.
const (
	cheapSearch = 20 * time.Millisecond // how long a search may run before it needs turns
	searchTurn  = 50 * time.Millisecond // how long a turn is, if other searches wait for one
	mostWaiting = 4                     // searches of one project that wait for a turn
)

// searchTurns returns how many searches that take long run at one time.
func searchTurns() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// newSearchTurns returns the queue for searches that take long.
func newSearchTurns() *fairQueue { return newFairQueue(searchTurns(), mostWaiting) }

// limited wraps a handler that searches, or reads much: it runs while it holds a slot of bounds.searches.
func limited(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		done := c.server.metrics.Wait()
		err := c.server.searches.acquire(c.Context())
		done()
		if err != nil {
			return err
		}
		c.holdsSlot = true
		defer c.release()
		return handle(c)
	}
}

// alone wraps a handler that needs much memory: one request runs at a time.
func alone(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		if err := c.server.counts.acquire(c.Context()); err != nil {
			return err
		}
		defer c.server.counts.release()
		return handle(c)
	}
}

// release returns the slot or the turn of the call, if it holds one. It is called before waiting for the client.
func (c *call) release() {
	if !c.holdsSlot {
		return
	}
	c.holdsSlot = false
	if c.inTurns {
		c.server.turns.release(c.share(), c.server.now().Sub(c.turnBegan))
	} else {
		c.server.searches.release()
	}
}

// reacquire waits for a slot or a turn again.
func (c *call) reacquire() error {
	if c.inTurns {
		return c.takeTurn(c.server.turns.resume)
	}
	err := c.server.searches.acquire(c.Context())
	c.holdsSlot = err == nil
	return err
}

// takeTurns waits for the next turn if the call has used up its slot or its turn. ran is how long its search has run
// in all.
func (c *call) takeTurns(ran time.Duration) error {
	switch {
	case c.server.turns == nil || !c.holdsSlot || !c.inTurns && ran < cheapSearch:
		return nil
	case c.inTurns && (c.server.now().Sub(c.turnBegan) < searchTurn || !c.server.turns.contested()):
		return nil
	}
	c.release()
	wait := c.server.turns.begin
	if c.inTurns || c.Begun() { // a part of the answer may be sent before the first turn
		wait = c.server.turns.resume
	}
	c.inTurns = true
	return c.takeTurn(wait)
}

// takeTurn waits for a turn.
func (c *call) takeTurn(wait func(context.Context, string) error) error {
	err := wait(c.Context(), c.share())
	c.turnBegan, c.holdsSlot = c.server.now(), err == nil
	return err
}

// share returns the project to which the search of the call counts: that of the caller, or the one that an
// administrator or a service names as the origin of its request.
func (c *call) share() string {
	if named := c.R.Header.Get(api.ProjectHeader); named != "" && (c.Who.IsAdmin() || c.Who.Has("service")) {
		return named
	}
	return c.Who.Project + "/" + c.Who.User
}
