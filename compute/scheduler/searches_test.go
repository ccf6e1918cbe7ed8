package scheduler

import (
	"context"
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// stalledPlacement answers queries for candidates when they are released or cancelled.
type stalledPlacement struct {
	Placement
	began   chan struct{}
	release chan struct{}
}

func (p stalledPlacement) Candidates(ctx context.Context, _ resource.Ask) (placement.Candidates, error) {
	p.began <- struct{}{}
	select {
	case <-p.release:
		return placement.Candidates{}, nil
	case <-ctx.Done():
		return placement.Candidates{}, fault.New(fault.Unavailable, "%w", ctx.Err())
	}
}

// Of the queries of one project that take long, only some run at one time, and the others are given up, so that
// workers are left for other projects.
func TestLongSearchesOfAProjectAreBounded(t *testing.T) {
	slow := stalledPlacement{began: make(chan struct{}, 20), release: make(chan struct{})}
	searches := newCandidateSearches()
	results := make(chan error, 20)
	ask := func(project string) {
		reader := searches.of(slow, lifecycle.Server{ID: "s", Project: project})
		go func() {
			_, err := reader.Candidates(t.Context(), resource.Ask{})
			results <- err
		}()
	}
	for range 8 {
		ask("greedy")
	}
	for range 8 - longOfProject {
		if err := <-results; !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), "repeated later") {
			t.Errorf("a query beyond the bound: %v", err)
		}
	}
	ask("other")
	ask("other")
	ask("third") // one too many for all
	if err := <-results; !fault.Is(err, fault.Unavailable) {
		t.Errorf("a query beyond the bound of all projects: %v", err)
	}
	close(slow.release)
	for range longOfAll {
		if err := <-results; err != nil {
			t.Errorf("a query within the bound: %v", err)
		}
	}
	if searches.all != 0 || len(searches.projects) != 0 {
		t.Errorf("counted after the end: %d, %v", searches.all, searches.projects)
	}
}

// A server of which the plan is not decided is tried again a bounded number of times. Then it is refused with that
// reason. A plan that was decided meanwhile begins the count again.
func TestUndecidedPlansAreRepeated(t *testing.T) {
	c, s := Scheduler{searches: newCandidateSearches()}, lifecycle.Server{ID: "s"}
	refusals := []schedule.Refusal{{Host: "a", Reason: "full"}, {Host: "b", Reason: "not decided", Undecided: true}}
	for n := range 2*UndecidedLimit - 1 {
		event, err := c.notDecided(s, refusals)
		last, text := n == 2*UndecidedLimit-2, fault.TextOf(err)
		said := strings.HasPrefix(text, "Not decided: whether the server fits on 1 host") &&
			strings.Contains(text, "1 host: full")
		if !last && (fault.CodeOf(err) != placement.CodeUndecided || !said) {
			t.Errorf("try %d: %v %v", n, event, err)
		}
		if refused, is := event.(lifecycle.Refused); is != last || is && !strings.Contains(refused.Reason, "Not decided") {
			t.Errorf("try %d: %v %v", n, event, err)
		}
		if n == UndecidedLimit-2 {
			c.searches.decided(s)
		}
	}
}
