package candidates

import (
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/server/request"
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
	call      *request.Call
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

// newSearchClock returns a clock that starts now. sending is the time spent sending the answer, which does not count.
func newSearchClock(c *request.Call, sending *time.Duration) *searchClock {
	return &searchClock{call: c, began: c.Service.Now(), limit: searchTimeout, sending: sending}
}

// expired reports whether the search must stop. It waits while the search has no turn.
func (e *searchClock) expired() bool {
	now := e.call.Service.Now()
	ran := now.Sub(e.began) - *e.sending - e.waited
	e.timedOut = e.timedOut || ran > e.limit+time.Duration(e.found)*timePerCandidate
	if e.timedOut || e.noTurn != nil || e.call.Context().Err() != nil {
		return true
	}
	e.noTurn = e.call.TakeTurns(ran)
	e.waited += e.call.Service.Now().Sub(now)
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
	c.Service.Log.Warn("candidate search not completed", "request_id", c.ID, "uri", c.R.URL.RequestURI(),
		"undecided", what, "project", c.Share())
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
func search(c *request.Call, clock *searchClock, snapshot *index.Snapshot,
	ask resource.Ask) iter.Seq[candidate.Candidate] {
	limit, most := ask.Limit, max(c.Service.Search.MaxCandidates, 0)
	if c.Service.Search.RandomizeCandidates {
		limit = 0 // the sample is taken from all candidates
	}
	if ask.Limit = limit; limit == 0 || 0 < most && most < limit {
		ask.Limit = most
	}
	options := candidate.Options{Stop: clock.expired, BreadthFirst: c.Service.Search.BreadthFirst,
		TreeSteps: candidate.StepsOfATree, Undecided: clock.givenUp}
	if forScheduling(c) {
		options.BreadthFirst, options.First = true, c.Service.Pick(max(snapshot.Len(), 1))
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
func forScheduling(c *request.Call) bool {
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
