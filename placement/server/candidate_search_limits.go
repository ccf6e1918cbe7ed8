package server

import (
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// searchTimeout bounds the CPU time of one search. Nearly all searches take milliseconds, but a crafted query can
// search indefinitely, because the problem is NP-hard.
const searchTimeout = 20 * time.Second

// searchClock stops a search when its client has disconnected or after searchTimeout.
type searchClock struct {
	call     *call
	began    time.Time
	sending  *time.Duration // time spent sending the answer, which does not count
	timedOut bool
}

func (c *call) newSearchClock(sending *time.Duration) *searchClock {
	return &searchClock{call: c, began: c.server.now(), sending: sending}
}

// expired reports whether the search must stop.
func (e *searchClock) expired() bool {
	e.timedOut = e.timedOut || e.call.server.now().Sub(e.began)-*e.sending > searchTimeout
	return e.timedOut || e.call.Context().Err() != nil
}

// err returns why the search was stopped; nil if it was not.
func (e *searchClock) err() error {
	switch err := e.call.Context().Err(); {
	case err != nil:
		return err
	case e.timedOut:
		return e.call.searchTimeoutError()
	}
	return nil
}

// searchTimeoutError returns the error for a search that was stopped after searchTimeout. A search that timed out is
// reported as 503, never as an empty list.
func (c *call) searchTimeoutError() error {
	detail := fmt.Sprintf("The search for candidates was stopped: it took more than %v. "+
		"Ask for fewer groups, for equal amounts, or for fewer same_subtree clauses.", searchTimeout)
	c.server.log.Warn("candidate search timed out", "request_id", c.ID, "uri", c.R.URL.RequestURI(),
		"after", searchTimeout)
	return edge.StatusErrorf(http.StatusServiceUnavailable, "%s", detail)
}

// search returns the candidates up to the limits of the query and of MaxCandidates, until stop returns true. Each
// candidate is valid until the next one is returned.
func (c *call) search(stop func() bool, snapshot *index.Snapshot, ask resource.Ask) iter.Seq[candidate.Candidate] {
	limit, most := ask.Limit, max(c.server.opts.MaxCandidates, 0)
	if c.server.opts.RandomizeCandidates {
		limit = 0 // the sample is taken from all candidates
	}
	if ask.Limit = limit; limit == 0 || 0 < most && most < limit {
		ask.Limit = most
	}
	options := candidate.Options{Stop: stop, BreadthFirst: c.server.opts.BreadthFirst}
	if c.forScheduling() {
		options.BreadthFirst, options.First = true, c.server.pick(max(snapshot.Len(), 1))
	}
	return candidate.Find(snapshot, ask, options)
}

// forScheduling reports whether the client wants candidates for scheduling; see api.CandidatesHeader.
func (c *call) forScheduling() bool { return c.R.Header.Get(api.CandidatesHeader) == api.ForScheduling }

// anyCandidate reports whether there is a candidate.
func (e *searchClock) anyCandidate(snapshot *index.Snapshot, ask resource.Ask) (bool, error) {
	for range candidate.Find(snapshot, ask, candidate.Options{Stop: e.expired}) {
		return true, nil
	}
	return false, e.err()
}
