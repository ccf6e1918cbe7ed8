package server

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// A search may run for searchTimeout, and for timePerCandidate more for each candidate that it finds. Nearly all
// searches take milliseconds, but a crafted query can search indefinitely, because the problem is NP-hard.
const (
	searchTimeout    = 1500 * time.Millisecond
	timePerCandidate = 50 * time.Microsecond
)

// searchClock stops a search when its client has disconnected or after a time limit, and makes a long search take
// turns.
type searchClock struct {
	call      *call
	began     time.Time
	limit     time.Duration  // without what candidates add
	sending   *time.Duration // time spent sending the answer, which does not count
	waited    time.Duration  // time spent waiting for turns, which does not count
	found     int            // candidates
	timedOut  bool
	noTurn    error  // why the search has got no turn
	undecided string // the first tree that was given up
	hosts     int    // how many were
}

func (c *call) newSearchClock(sending *time.Duration) *searchClock {
	return &searchClock{call: c, began: c.server.now(), limit: searchTimeout, sending: sending}
}

// expired reports whether the search must stop. It waits while the search has no turn.
func (e *searchClock) expired() bool {
	now := e.call.server.now()
	ran := now.Sub(e.began) - *e.sending - e.waited
	e.timedOut = e.timedOut || ran > e.limit+time.Duration(e.found)*timePerCandidate
	if e.timedOut || e.noTurn != nil || e.call.Context().Err() != nil {
		return true
	}
	e.noTurn = e.call.takeTurns(ran)
	e.waited += e.call.server.now().Sub(now)
	return e.noTurn != nil
}

// givenUp records a tree on which the search has ended before it was complete.
func (e *searchClock) givenUp(t *index.Tree, groups []string) {
	if e.hosts++; e.hosts > 1 {
		return
	}
	names := make([]string, 0, len(groups))
	for _, suffix := range groups {
		if suffix == "" {
			suffix = "(the unsuffixed group)"
		}
		names = append(names, suffix)
	}
	e.undecided = fmt.Sprintf("whether the groups %s fit together on the resource provider %s (%s)",
		strings.Join(names, ", "), t.Nodes[0].Name, t.Root)
}

// err returns why the search was not complete; nil if it was.
func (e *searchClock) err() error {
	switch err := e.call.Context().Err(); {
	case err != nil:
		return err
	case e.noTurn != nil:
		return undecided("%s", fault.TextOf(e.noTurn))
	case e.timedOut || e.undecided != "":
		return e.undecidedError()
	}
	return nil
}

// undecidedError returns the error for a search that was not complete. It is reported as 503, never as an empty list.
func (e *searchClock) undecidedError() error {
	c := e.call
	what := e.undecided
	if what == "" {
		what = "whether a resource provider tree that was not reached has candidates"
	}
	if e.hosts > 1 {
		what += fmt.Sprintf(", and the same on %d more", e.hosts-1)
	}
	c.server.opts.Log.Warn("candidate search not completed", "request_id", c.ID, "uri", c.R.URL.RequestURI(),
		"undecided", what, "project", c.share())
	return undecided("The search for candidates was stopped, because it took too long. Not decided: %s. Ask for fewer "+
		"groups, for equal amounts, or for fewer same_subtree clauses.", what)
}

// undecided returns the error for a search that was not complete, with a text for the client.
func undecided(format string, args ...any) error {
	return &edge.StatusError{Status: http.StatusServiceUnavailable,
		Err: fault.New(fault.Unavailable, format, args...).WithCode(api.CodeUndecided)}
}

// search returns the candidates up to the limits of the query and of MaxCandidates, until the clock stops it. Each
// candidate is valid until the next one is returned.
func (c *call) search(clock *searchClock, snapshot *index.Snapshot, ask resource.Ask) iter.Seq[candidate.Candidate] {
	limit, most := ask.Limit, max(c.server.opts.MaxCandidates, 0)
	if c.server.opts.RandomizeCandidates {
		limit = 0 // the sample is taken from all candidates
	}
	if ask.Limit = limit; limit == 0 || 0 < most && most < limit {
		ask.Limit = most
	}
	options := candidate.Options{Stop: clock.expired, BreadthFirst: c.server.opts.BreadthFirst,
		TreeSteps: candidate.StepsOfATree, Undecided: clock.givenUp}
	if c.forScheduling() {
		options.BreadthFirst, options.First = true, c.server.pick(max(snapshot.Len(), 1))
	}
	return func(yield func(candidate.Candidate) bool) {
		for one := range candidate.Find(snapshot, ask, options) {
			if clock.found++; !yield(one) {
				return
			}
		}
		if ask.Limit > 0 && clock.found == ask.Limit {
			clock.undecided = "" // the answer is complete without the trees that were given up
		}
	}
}

// forScheduling reports whether the client wants candidates for scheduling; see api.CandidatesHeader.
func (c *call) forScheduling() bool {
	purpose := c.R.Header.Get(api.CandidatesHeader)
	return purpose == api.ForScheduling || purpose == api.ForPlanning
}

// anyCandidate reports whether there is a candidate.
func (e *searchClock) anyCandidate(snapshot *index.Snapshot, ask resource.Ask) (bool, error) {
	options := candidate.Options{Stop: e.expired, TreeSteps: candidate.StepsOfATree, Undecided: e.givenUp}
	for range candidate.Find(snapshot, ask, options) {
		return true, nil
	}
	return false, e.err()
}

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
