package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Input joins the candidates with the reports of their hosts.
func (c Scheduler) Input(ctx context.Context, got placement.Candidates) (schedule.Input, error) {
	roots := map[provider.ID]bool{}
	for _, candidate := range got.List {
		for id := range candidate.Allocation {
			roots[rootOf(got, id)] = true
		}
	}
	p, err := c.inputOf(ctx, slices.Sorted(maps.Keys(roots)))
	if err != nil {
		return schedule.Input{}, err
	}
	hosts := p.Hosts
	for id, host := range hosts {
		host.Load = load(got.Summaries[id])
		hosts[id] = host
	}
	for _, candidate := range got.List {
		p.Candidates = append(p.Candidates, schedule.Candidate{
			Root: hostOf(got, candidate, hosts), Allocation: candidate.Allocation, Mappings: candidate.Mappings})
	}
	p.NICs = nicsOf(got.Summaries)
	return p, nil
}

// inputOf returns the hosts with these root providers, with the last known load of each.
func (c Scheduler) inputOf(ctx context.Context, roots []provider.ID) (schedule.Input, error) {
	hosts, err := c.store.Reports(ctx, roots)
	if err != nil {
		return schedule.Input{}, err
	}
	now := c.options.Now()
	for id, host := range hosts {
		host.Down = cmp.Or(c.options.Agents.StartFailure(host.Name).Why, host.Down)
		host.Seen = now.Add(-c.options.Agents.SinceReport(host.Name)) // measured with the monotonic clock
		host.Load = c.loads.of(id, now)
		for _, guest := range c.moving[host.Name] {
			host = host.WithGuest(guest)
		}
		hosts[id] = host
	}
	return schedule.Input{Hosts: hosts, Now: now, Silence: c.options.Silence,
		Unreliable: c.options.Failures.Recent(now)}, nil
}

// nicsOf returns the providers with bandwidth, and their children; nil if none has bandwidth.
func nicsOf(summaries map[provider.ID]placement.Summary) map[provider.ID]schedule.NIC {
	var nics map[provider.ID]schedule.NIC
	for id, s := range summaries {
		for _, class := range []resource.Class{bandwidth.EgressBandwidth, bandwidth.IngressBandwidth} {
			if capacity, has := s.Resources[class]; has {
				if nics == nil {
					nics = map[provider.ID]schedule.NIC{}
				}
				if nics[id].Bandwidth == nil {
					nics[id] = schedule.NIC{Parent: s.Parent, Bandwidth: map[resource.Class]schedule.Room{}}
				}
				nics[id].Bandwidth[class] = schedule.Room(capacity)
			}
		}
	}
	for id, s := range summaries {
		if _, below := nics[s.Parent]; below && len(nics[id].Bandwidth) == 0 {
			nics[id] = schedule.NIC{Parent: s.Parent}
		}
	}
	return nics
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
