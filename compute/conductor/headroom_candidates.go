package conductor

import (
	"context"
	"maps"
	"slices"

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
// complete, each host is requested alone too. Such an answer has no sharing providers: if there are some, the answer
// for all hosts is used.
func (r reading) everyCandidate(ctx context.Context, ask resource.Ask, hosts []schedule.Host) (hostCandidates,
	error) {
	whole, err := r.allCandidates(ctx, ask)
	all := hostCandidates{Candidates: whole}
	if err != nil || len(whole.List) == 0 || whole.Complete {
		return all, err
	}
	if hasSharing(whole) {
		if whole.Limit > 0 {
			all.cut = rootsOf(whole)
		}
		return all, nil
	}
	each := placement.Candidates{Summaries: map[provider.ID]placement.Summary{}}
	counts := map[provider.ID]int{}
	for _, h := range hosts {
		if h.Provider == "" {
			continue
		}
		one, err := r.allCandidates(ctx, inTree(ask, h.Provider))
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

// rootsOf returns the root providers of the candidates.
func rootsOf(got placement.Candidates) map[provider.ID]bool {
	roots := map[provider.ID]bool{}
	for _, candidate := range got.List {
		for id := range candidate.Allocation {
			roots[rootOf(got, id)] = true
		}
	}
	return roots
}

// hasSharing reports whether a candidate has providers of several trees.
func hasSharing(got placement.Candidates) bool {
	for _, candidate := range got.List {
		var root provider.ID
		for id := range candidate.Allocation {
			if root != "" && rootOf(got, id) != root {
				return true
			}
			root = rootOf(got, id)
		}
	}
	return false
}

// inTree returns an ask for the candidates of one tree.
func inTree(ask resource.Ask, root provider.ID) resource.Ask {
	ask.Groups = slices.Clone(ask.Groups)
	for i := range ask.Groups {
		ask.Groups[i].InTree = root
	}
	return ask
}
