package server

import (
	"runtime"
	"time"

	api "github.com/openberth/berth/api/placement"
)

// A search begins in a slot of Server.searches. Nearly all end there within milliseconds. One that has run for
// cheapSearch gives its slot back and goes on in turns of Server.turns, which are fewer than the cores, so cheap
// searches always have a part of the machine, however many others there are. What a search costs is measured, because
// it cannot be read from the query.
const (
	cheapSearch = 20 * time.Millisecond // how long a search may run before it needs turns
	searchTurn  = 50 * time.Millisecond // how long a turn is, if other searches wait for one
	mostWaiting = 4                     // searches of one project that wait for a turn
)

// newSearchTurns returns the queue for searches that take long.
func newSearchTurns() *fairQueue { return newFairQueue(max(1, runtime.GOMAXPROCS(0)/2), mostWaiting) }

// limited wraps a handler that searches, or reads much: it runs while it holds a slot of Server.searches.
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
func (c *call) reacquire() (err error) {
	if c.inTurns {
		err = c.server.turns.acquire(c.Context(), c.share())
		c.turnBegan = c.server.now()
	} else {
		err = c.server.searches.acquire(c.Context())
	}
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
	c.inTurns = true
	return c.reacquire()
}

// share returns the project to which the search of the call counts: that of the caller, or the one that an
// administrator or a service names as the origin of its request.
func (c *call) share() string {
	if named := c.R.Header.Get(api.ProjectHeader); named != "" && (c.Who.IsAdmin() || c.Who.Has("service")) {
		return named
	}
	return c.Who.Project + "/" + c.Who.User
}
