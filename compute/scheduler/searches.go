package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// Limits of the queries for candidates that take long. The runner has eight workers: the others are for the servers of
// other users, whose queries take milliseconds. Which query takes long is measured, because the query does not show it.
const (
	longSearch     = 50 * time.Millisecond // a query that has taken this long counts
	longOfAll      = 4                     // that may run at one time
	longOfProject  = 2
	UndecidedLimit = 8 // how often a query for one server is repeated that Placement could not decide
)

// candidateSearches bounds the queries for candidates that take long. A query beyond the bound is cancelled and
// repeated after a wait that grows, like every step that fails.
type candidateSearches struct {
	mu        sync.Mutex
	all       int
	projects  map[string]int // the long queries that run
	undecided map[string]int // by server: how often Placement could not decide its query
}

func newCandidateSearches() *candidateSearches {
	return &candidateSearches{projects: map[string]int{}, undecided: map[string]int{}}
}

// errCrowded ends a query because other queries that take long are running.
var errCrowded = errors.New("too many long searches")

// of returns the Placement of a server: its queries for candidates count to the project of the server.
func (q *candidateSearches) of(p Placement, s lifecycle.Server) Placement {
	return boundedPlacement{p, q, s.ID, s.Project}
}

// crowded returns the error of a search that must wait for others.
func crowded() error {
	return fault.New(fault.Unavailable, "the search for a host takes long, and other searches of this kind are running; "+
		"this one is repeated later")
}

// notDecided is the result for a server of which the search on some hosts has reached its limit, and that fits on no
// other host: fault.Unavailable, so that it is repeated, and after UndecidedLimit times a refusal.
func (c Scheduler) notDecided(s lifecycle.Server, refusals []schedule.Refusal) (lifecycle.Event, error) {
	hosts := "hosts"
	if schedule.Undecided(refusals) == 1 {
		hosts = "host"
	}
	err := c.searches.judge(planOf(s), fault.New(fault.Unavailable,
		"Not decided: whether the server fits on %d %s, because the search there has reached its limit; request fewer "+
			"NUMA nodes or devices at a time, or repeat the request when fewer are in use (%s)", schedule.Undecided(refusals),
		hosts, schedule.Summarise(refusals)).WithCode(placement.CodeUndecided))
	if fault.Is(err, fault.Conflict) {
		return lifecycle.Refused{Step: lifecycle.Schedule, Reason: fault.TextOf(err)}, nil
	}
	return nil, err
}

// planOf is the key of the plans of a server in candidateSearches.
func planOf(s lifecycle.Server) string { return "plan of " + s.ID }

// decided forgets how often the plan of a server was not decided.
func (q *candidateSearches) decided(s lifecycle.Server) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.undecided, planOf(s))
}

type boundedPlacement struct {
	Placement
	searches        *candidateSearches
	server, project string
}

// Candidates returns fault.Unavailable if the query is to be repeated later, and fault.Conflict, with the reason, if
// Placement could not decide it UndecidedLimit times.
func (p boundedPlacement) Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error) {
	ctx, cancel := context.WithCancelCause(placement.ForProject(ctx, p.project))
	defer cancel(nil)
	long := make(chan bool, 1) // whether the query was counted
	timer := time.AfterFunc(longSearch, func() {
		counted := p.searches.enter(p.project)
		if !counted {
			cancel(errCrowded)
		}
		long <- counted
	})
	got, err := p.Placement.Candidates(ctx, ask)
	if !timer.Stop() && <-long {
		p.searches.leave(p.project)
	}
	if err != nil && context.Cause(ctx) == errCrowded {
		return got, crowded()
	}
	return got, p.searches.judge(p.server, err)
}

func (q *candidateSearches) enter(project string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all >= longOfAll || q.projects[project] >= longOfProject {
		return false
	}
	q.all++
	q.projects[project]++
	return true
}

func (q *candidateSearches) leave(project string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all--
	if q.projects[project]--; q.projects[project] == 0 {
		delete(q.projects, project)
	}
}

// judge counts how often Placement could not decide the query of a server, and returns the error of the query.
func (q *candidateSearches) judge(server string, err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if fault.CodeOf(err) != placement.CodeUndecided {
		if !fault.Is(err, fault.Unavailable) {
			delete(q.undecided, server)
		}
		return err
	}
	q.undecided[server]++
	if q.undecided[server] < UndecidedLimit {
		return err
	}
	delete(q.undecided, server)
	return fault.New(fault.Conflict, "%s (the search was repeated %d times)", fault.TextOf(err),
		UndecidedLimit)
}
