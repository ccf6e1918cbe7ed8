package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// hostCandidates are the candidates of all hosts.
type hostCandidates struct {
	placement.Candidates
	cut map[provider.ID]bool // root providers of hosts that may have more candidates
}

// isCut reports whether some host may have more candidates.
func (c hostCandidates) isCut() bool {
	for _, cut := range c.cut {
		if cut {
			return true
		}
	}
	return false
}

// undecided returns the hosts that may have candidates and are not among the counted ones, by name. Their numbers are
// lower bounds.
func (c hostCandidates) undecided(counted []HostHeadroom, known []schedule.Host) (list []HostHeadroom) {
	for _, h := range known {
		if c.cut[h.Provider] && !slices.ContainsFunc(counted, func(o HostHeadroom) bool { return o.Root == h.Provider }) {
			list = append(list, HostHeadroom{Root: h.Provider, Name: h.Name,
				Refused: "Placement has not decided in time whether a server fits"})
		}
	}
	return list
}

// decidedCandidates is allCandidates, except that a search that has found nothing when its time ended is an answer
// without candidates that is not decided.
func (c Scheduler) decidedCandidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error) {
	got, err := c.allCandidates(ctx, ask)
	if fault.CodeOf(err) == placement.CodeUndecided {
		return placement.Candidates{Undecided: fault.TextOf(err)}, nil
	}
	return got, err
}

// everyCandidate returns the candidates of all hosts. Placement may limit the candidates of an answer ([placement]
// max_allocation_candidates). Berth's Placement reports the limit; OpenStack's does not. So unless the answer is
// complete, each host is requested alone too: all hosts, or until UndecidedLimit of them were not decided in time.
func (c Scheduler) everyCandidate(ctx context.Context, ask resource.Ask, hosts []schedule.Host) (hostCandidates,
	error) {
	whole, err := c.decidedCandidates(ctx, ask)
	all := hostCandidates{Candidates: whole}
	if err != nil || whole.Undecided == "" && (len(whole.List) == 0 || whole.Complete) {
		return all, err
	}
	all.cut = map[provider.ID]bool{}
	undecided := 0
	each := placement.Candidates{Summaries: map[provider.ID]placement.Summary{}}
	counts := map[provider.ID]int{}
	for _, h := range hosts {
		if h.Provider == "" {
			continue
		}
		if undecided == UndecidedLimit {
			all.cut[h.Provider] = true
			continue
		}
		one, err := c.decidedCandidates(ctx, ask.InTree(h.Provider))
		if err != nil {
			return all, err
		}
		if one.Undecided != "" {
			undecided++
			all.cut[h.Provider] = true
		}
		counts[h.Provider] = len(one.List)
		each.List = append(each.List, one.List...)
		maps.Copy(each.Summaries, one.Summaries)
	}
	limit := whole.Limit
	lacking := false // the answer that is used may lack candidates of each host
	switch more := len(each.List) - len(whole.List); {
	case whole.Undecided != "" && more >= 0:
		all.Candidates = each
	case whole.Undecided != "":
		lacking = true
	case more > 0:
		all.Candidates, limit = each, len(whole.List)
	}
	for root, n := range counts {
		all.cut[root] = all.cut[root] || lacking || limit > 0 && n >= limit
	}
	if len(all.List) == 0 {
		all.Reason = cmp.Or(all.Reason, whole.Undecided)
	}
	return all, nil
}
