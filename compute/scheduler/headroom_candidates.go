package scheduler

import (
	"context"
	"maps"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// hostCandidates are the candidates of all hosts.
type hostCandidates struct {
	placement.Candidates
	cut map[provider.ID]bool // root providers of hosts that may have more candidates
}

// everyCandidate returns the candidates of all hosts. Placement may limit the candidates of an answer ([placement]
// max_allocation_candidates). Berth's Placement reports the limit; OpenStack's does not. So unless the answer is
// complete, each host is requested alone too.
func (c Scheduler) everyCandidate(ctx context.Context, ask resource.Ask, hosts []schedule.Host) (hostCandidates,
	error) {
	whole, err := c.allCandidates(ctx, ask)
	all := hostCandidates{Candidates: whole}
	if err != nil || len(whole.List) == 0 || whole.Complete {
		return all, err
	}
	each := placement.Candidates{Summaries: map[provider.ID]placement.Summary{}}
	counts := map[provider.ID]int{}
	for _, h := range hosts {
		if h.Provider == "" {
			continue
		}
		one, err := c.allCandidates(ctx, ask.InTree(h.Provider))
		if err != nil {
			return all, err
		}
		counts[h.Provider] = len(one.List)
		each.List = append(each.List, one.List...)
		maps.Copy(each.Summaries, one.Summaries)
	}
	limit := whole.Limit
	if len(each.List) > len(whole.List) {
		all.Candidates, limit = each, len(whole.List)
	}
	all.cut = map[provider.ID]bool{}
	for root, n := range counts {
		all.cut[root] = limit > 0 && n >= limit
	}
	return all, nil
}
