package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// roomAfterMoves is a Placement whose candidates have the room that planned moves leave.
type roomAfterMoves struct {
	Placement
	taken resource.Allocation
}

// take records the allocation of a planned move.
func (p *roomAfterMoves) take(a resource.Allocation) {
	for id, amounts := range a {
		if p.taken[id] == nil {
			p.taken[id] = resource.Amounts{}
		}
		for class, n := range amounts {
			p.taken[id][class] += n
		}
	}
}

// Candidates returns the candidates of Placement that still fit.
func (p *roomAfterMoves) Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error) {
	got, err := p.Placement.Candidates(ctx, ask)
	if err != nil {
		return got, fault.Wrap("", err)
	}
	before := len(got.List)
	got.Summaries = p.after(got.Summaries)
	got.List = slices.DeleteFunc(slices.Clone(got.List), func(one placement.Candidate) bool {
		for id, amounts := range one.Allocation {
			for class, n := range amounts {
				of := got.Summaries[id].Resources[class]
				if p.taken[id][class] > 0 && of.Used+n > of.Capacity {
					return true
				}
			}
		}
		return false
	})
	if before > 0 && len(got.List) == 0 {
		got.Reason = "the servers that move before it take the room"
	}
	return got, nil
}

// after returns the summaries with what the planned moves take.
func (p *roomAfterMoves) after(summaries map[provider.ID]placement.Summary) map[provider.ID]placement.Summary {
	out := maps.Clone(summaries)
	for id, amounts := range p.taken {
		summary, known := out[id]
		if !known {
			continue
		}
		summary.Resources = maps.Clone(summary.Resources)
		for class, n := range amounts {
			of := summary.Resources[class]
			of.Used += n
			summary.Resources[class] = of
		}
		out[id] = summary
	}
	return out
}

// guestOf returns the guest that a choice brings to its host.
func guestOf(s lifecycle.Server, choice schedule.Choice) schedule.Guest {
	return schedule.Guest{ID: s.ID, Cells: numa.WithChoices(s.Topology, choice.Cells),
		Requests: lifecycle.WithProviders(s.Requests, choice.Mappings)}
}

// OtherHost returns where a server that waits for the agent of a host can be placed now, or why it cannot be placed on
// another host. The room that other servers take counts as used. NUMA cells and devices that Placement does not count
// cannot be subtracted: a server that needs them gets none of the hosts of these servers. The ports of the server are
// not considered.
func (c Scheduler) OtherHost(ctx context.Context, s lifecycle.Server, host string,
	others map[string]schedule.Choice) (choice schedule.Choice, reason string, err error) {
	ask := s.Ask
	ask.Limit = MaxCandidates
	uncounted := len(s.Topology) > 0 || len(s.Requests) > 0 && !devicesInPlacement(s.Requests, ask)
	room := &roomAfterMoves{Placement: c.searches.of(c.placement, s), taken: resource.Allocation{}}
	failed := map[string]string{}
	for id, other := range others {
		if id == s.ID {
			continue
		}
		if room.take(other.Allocation); uncounted {
			failed[other.Host] = "another server that leaves its host goes there"
		}
	}
	maps.Copy(failed, s.FailedHosts)
	failed[host] = cmp.Or(s.FailedHosts[host], "its agent does not answer")
	c.placement, s.FailedHosts = room, failed
	s, err = c.withGroupAndHints(ctx, s)
	if err != nil {
		return choice, "", err
	}
	event, err := c.searchHosts(ctx, s, ask)
	switch e := event.(type) {
	case lifecycle.Chosen:
		choice = e.Choices[0]
	case lifecycle.NoValidHost:
		reason = e.Reason
	case lifecycle.Refused:
		reason = e.Reason
	}
	return choice, reason, err
}
