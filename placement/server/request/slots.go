package request

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

// Limiter bounds how many slots are held at one time. A nil limiter has no bound.
type Limiter chan struct{}

// newSearchLimiter returns the slots of searches.
func newSearchLimiter() Limiter { return make(Limiter, searchesPerCore*runtime.GOMAXPROCS(0)) }

// Acquire waits for a slot. It returns fault.Unavailable if ctx ends before.
func (t Limiter) Acquire(ctx context.Context) error {
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

// Release returns a slot.
func (t Limiter) Release() {
	if t != nil {
		<-t
	}
}

// NewBounds returns the bounds of a server whose request bodies have at most maxBody bytes.
func NewBounds(maxBody int64) Bounds {
	return Bounds{Searches: newSearchLimiter(), Turns: newSearchTurns(), counts: make(Limiter, 1),
		Streams: make(Limiter, maxStreams), BodyBudget: rest.NewBodyBudget(maxLargeBodies*maxBody, maxBody)}
}

// Bounds bound what all requests use together.
type Bounds struct {
	Searches   Limiter          // the searches that run at one time
	Turns      *fairQueue       // of the searches that take long
	counts     Limiter          // the counts of headroom that run at one time
	Streams    Limiter          // the answers that are sent in chunks at one time
	BodyBudget *rest.BodyBudget // the memory of large request bodies
}

// A search begins in a slot of Bounds.Searches. Nearly all end there within milliseconds. One that has run for
// cheapSearch gives its slot back and goes on in turns of Bounds.Turns, which are fewer than the cores, so cheap
// searches always have a part of the machine, however many others there are. What a search costs is measured, because
// it cannot be read from the query.
const (
	cheapSearch = 20 * time.Millisecond // how long a search may run before it needs turns
	searchTurn  = 50 * time.Millisecond // how long a turn is, if other searches wait for one
	MostWaiting = 4                     // searches of one project that wait for a turn
)

// SearchTurns returns how many searches that take long run at one time.
func SearchTurns() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// newSearchTurns returns the queue for searches that take long.
func newSearchTurns() *fairQueue { return newFairQueue(SearchTurns(), MostWaiting) }

// Limited wraps a handler that searches, or reads much: it runs while it holds a slot of Bounds.Searches.
func Limited(handle func(*Call) error) func(*Call) error {
	return func(c *Call) error {
		done := c.Service.Metrics.Wait()
		err := c.Service.Searches.Acquire(c.Context())
		done()
		if err != nil {
			return err
		}
		c.holdsSlot = true
		defer c.release()
		return handle(c)
	}
}

// Alone wraps a handler that needs much memory: one request runs at a time.
func Alone(handle func(*Call) error) func(*Call) error {
	return func(c *Call) error {
		if err := c.Service.counts.Acquire(c.Context()); err != nil {
			return err
		}
		defer c.Service.counts.Release()
		return handle(c)
	}
}

// release returns the slot or the turn of the call, if it holds one. It is called before waiting for the client.
func (c *Call) release() {
	if !c.holdsSlot {
		return
	}
	c.holdsSlot = false
	if c.inTurns {
		c.Service.Turns.release(c.Share(), c.Service.Now().Sub(c.turnBegan))
	} else {
		c.Service.Searches.Release()
	}
}

// reacquire waits for a slot or a turn again.
func (c *Call) reacquire() error {
	if c.inTurns {
		return c.takeTurn(c.Service.Turns.resume)
	}
	err := c.Service.Searches.Acquire(c.Context())
	c.holdsSlot = err == nil
	return err
}

// TakeTurns waits for the next turn if the call has used up its slot or its turn. ran is how long its search has run
// in all.
func (c *Call) TakeTurns(ran time.Duration) error {
	switch {
	case c.Service.Turns == nil || !c.holdsSlot || !c.inTurns && ran < cheapSearch:
		return nil
	case c.inTurns && (c.Service.Now().Sub(c.turnBegan) < searchTurn || !c.Service.Turns.contested()):
		return nil
	}
	c.release()
	wait := c.Service.Turns.begin
	if c.inTurns || c.Begun() { // a part of the answer may be sent before the first turn
		wait = c.Service.Turns.resume
	}
	c.inTurns = true
	return c.takeTurn(wait)
}

// takeTurn waits for a turn.
func (c *Call) takeTurn(wait func(context.Context, string) error) error {
	err := wait(c.Context(), c.Share())
	c.turnBegan, c.holdsSlot = c.Service.Now(), err == nil
	return err
}

// Share returns the project to which the search of the call counts: that of the caller, or the one that an
// administrator or a service names as the origin of its request.
func (c *Call) Share() string {
	if named := c.R.Header.Get(api.ProjectHeader); named != "" && (c.Who.IsAdmin() || c.Who.Has("service")) {
		return named
	}
	return c.Who.Project + "/" + c.Who.User
}
