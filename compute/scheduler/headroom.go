package scheduler

import (
	"context"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Headroom returns how many more servers of a flavor, each with these ports, fit on each host with room for at least
// one, by what Placement counts. reason is why there is no such host. It claims nothing. It returns fault.Invalid for a
// flavor or a port that no host can serve.
//
// If an agent reports devices for ports, Placement is asked for them.
func (c Scheduler) Headroom(ctx context.Context, f flavor.Flavor, ports []portrequest.Port) (
	hosts []HostHeadroom, reason string, err error) {
	prepared, err := c.Build(lifecycle.Server{Flavor: f})
	if err != nil {
		return nil, "", err
	}
	known, err := c.store.Hosts(ctx)
	if err != nil {
		return nil, "", err
	}
	request, err := portrequest.Make(ports, portrequest.Options{DevicesInPlacement: schedule.PortDevicesCounted(known)})
	if err != nil {
		return nil, "", err
	}
	ask, err := portrequest.Add(prepared.Ask, request)
	if err != nil {
		return nil, "", err
	}
	s := lifecycle.Server{Flavor: f, Requests: append(slices.Clone(prepared.Requests), request.Devices...),
		Topology: prepared.Topology}
	if planned(s, ask) {
		return c.plannedHeadroom(ctx, s, ask, known)
	}
	found, err := c.everyCandidate(ctx, ask, known)
	got := found.Candidates
	if err != nil || len(got.List) == 0 {
		return found.undecided(nil, known), got.Reason, err
	}
	input, err := c.Input(ctx, got)
	if err != nil {
		return nil, "", err
	}
	if input.ExcludedHosts, err = c.excludedHosts(ctx, lifecycle.Server{}, input.Hosts); err != nil {
		return nil, "", err
	}
	if input.Demand, err = c.demandOf(ctx, s); err != nil {
		return nil, "", err
	}
	input.Cells, input.Pack = prepared.Topology, c.options.Pack
	all := headroomAsk{groups: ask.Groups, requests: append(slices.Clone(prepared.Requests), request.Devices...),
		stop: func() bool { return ctx.Err() != nil }}
	all.counted = devicesInPlacement(all.requests, ask)
	if hosts = all.count(input, freeOf(got.Summaries)); ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	for i := range hosts {
		hosts[i].Exact = hosts[i].Exact && !found.cut[hosts[i].Root]
	}
	return append(hosts, found.undecided(hosts, known)...), "", nil
}

// freeOf returns what providers have left.
func freeOf(summaries map[provider.ID]placement.Summary) resource.Allocation {
	free := resource.Allocation{}
	for id, s := range summaries {
		free[id] = resource.Amounts{}
		for class, r := range s.Resources {
			free[id][class] = r.Capacity - r.Used
		}
	}
	return free
}
