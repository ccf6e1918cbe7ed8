package conductor

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
)

// scheduleInput joins the candidates with the reports of their hosts.
func (d *dependencies) scheduleInput(ctx context.Context, got placement.Candidates) (schedule.Input, error) {
	roots := map[provider.ID]bool{}
	for _, candidate := range got.List {
		for id := range candidate.Allocation {
			roots[rootOf(got, id)] = true
		}
	}
	hosts, err := d.store.Reports(ctx, slices.Sorted(maps.Keys(roots)))
	if err != nil {
		return schedule.Input{}, err
	}
	for id, host := range hosts {
		host.Seen = d.now().Add(-d.presence.sinceReport(host.Name, d.Silence)) // measured with the monotonic clock
		host.Load = load(got.Summaries[id])
		hosts[id] = host
	}
	p := schedule.Input{Hosts: hosts, Now: d.now(), Silence: d.Silence}
	for _, candidate := range got.List {
		p.Candidates = append(p.Candidates, schedule.Candidate{
			Root: hostOf(got, candidate, hosts), Allocation: candidate.Allocation, Mappings: candidate.Mappings})
	}
	return p, nil
}

func rootOf(got placement.Candidates, id provider.ID) provider.ID {
	if summary, ok := got.Summaries[id]; ok && summary.Root != "" {
		return summary.Root
	}
	return id
}

// hostOf returns the root provider of the candidate's host. A candidate with sharing providers has several trees; the
// host is the tree that has an agent.
func hostOf(got placement.Candidates, candidate placement.Candidate, hosts map[provider.ID]schedule.Host) provider.ID {
	var first provider.ID
	for _, id := range slices.Sorted(maps.Keys(candidate.Allocation)) {
		root := rootOf(got, id)
		if _, ok := hosts[root]; ok {
			return root
		}
		if first == "" {
			first = root
		}
	}
	return first
}

// load returns the largest used share of any resource class of a provider, from 0 to 1.
func load(s placement.Summary) float64 {
	most := 0.0
	for _, of := range s.Resources {
		if of.Capacity > 0 {
			most = max(most, float64(of.Used)/float64(of.Capacity))
		}
	}
	return min(most, 1)
}
