package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/headroom"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// novaHeadroom returns the headroom of flavors by what Placement has, for servers with the described ports, and the
// compute services of the hosts. Of several flavors one that is not valid has its fault as the reason.
func novaHeadroom(ctx context.Context, g *Globals, flavors []compute.Flavor, ports, aliasFiles []string) (
	[]flavorHeadroom, map[string]string, error) {
	described, err := describedPorts(ports)
	if err != nil {
		return nil, nil, err
	}
	aliases, err := readAliases(aliasFiles)
	if err != nil {
		return nil, nil, err
	}
	list, asks := make([]flavorHeadroom, len(flavors)), make([]resource.Ask, len(flavors))
	traits := []resource.Trait{hosttree.StatusDisabled}
	for i, f := range flavors {
		server := fleet.Server{Flavor: read.Flavor(f)}
		ask, left, err := server.Request(described, aliases, len(aliasFiles) > 0)
		if left != "" {
			left += "; --alias-file names them"
		}
		list[i] = flavorHeadroom{Flavor: f.Name, Headroom: host.Headroom{Exact: true}, LeftOut: left}
		if len(flavors) > 1 && fault.Is(err, fault.Invalid) {
			list[i].Reason, err = fault.TextOf(err), nil
		}
		if err != nil {
			return nil, nil, err
		}
		asks[i], traits = ask, append(traits, headroom.Traits(ask)...)
	}
	if services, err := countedByPlacement(ctx, g, list, asks); !countsItself(err) {
		return list, services, err
	}
	v, err := readFleet(ctx, g, read.Options{Named: traits, Shared: true, Without: notOfHeadroom,
		Copy: &read.Copy{}})
	if err != nil {
		return nil, nil, err
	}
	for i, ask := range asks {
		if len(ask.Groups) > 0 {
			list[i].add(headroom.Count(v, ask, func() bool { return ctx.Err() != nil }))
		}
	}
	return list, servicesOf(v), nil
}

// servicesOf returns the compute services of hypervisors by their names.
func servicesOf(v *fleet.View) map[string]string {
	services := map[string]string{}
	for _, h := range v.Hypervisors {
		services[h.Name] = h.Host
	}
	return services
}

// mostExcluded is how many hosts a query for the headroom excludes at most: an address has a limited length.
const mostExcluded = 200

// errCount is returned if Placement cannot count.
var errCount = errors.New("Placement does not count")

// countsItself reports whether the command must count, with what it reads from Placement: that is not Berth's, does not
// know a class or a trait of a request, needs too long, or too many hosts are out of service.
func countsItself(err error) bool {
	return errors.Is(err, errCount) || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) ||
		fault.CodeOf(err) == placement.CodeUndecided
}

// countedByPlacement adds what Berth's Placement counts to the flavors with these requests, and returns the compute
// services of the hosts.
func countedByPlacement(ctx context.Context, g *Globals, list []flavorHeadroom, asks []resource.Ask) (
	map[string]string, error) {
	first := slices.IndexFunc(asks, func(ask resource.Ask) bool { return len(ask.Groups) > 0 })
	if first < 0 {
		return nil, errCount
	}
	room, err := g.placement().Headroom(ctx, asks[first], nil)
	if err != nil {
		return nil, err
	}
	v, err := readFleet(ctx, g, read.Options{Without: append([]fleet.Part{fleet.Providers}, notOfHeadroom...)})
	if err != nil {
		return nil, err
	}
	out, further := withHostsOf(v, room).OutOfService(), []string{}
	disabled := map[string]bool{}
	for _, h := range room.ByHost {
		disabled[h.Host] = h.Excluded != ""
	}
	for _, e := range out {
		if !disabled[e.Host] {
			further = append(further, e.Host)
		}
	}
	if len(further) > mostExcluded {
		return nil, errCount
	}
	counted := make([]headroom.Result, len(asks))
	for i, ask := range asks {
		if len(ask.Groups) == 0 {
			continue
		}
		if i != first || len(further) > 0 {
			if room, err = g.placement().Headroom(ctx, ask, further); err != nil {
				return nil, err
			}
		}
		counted[i] = countOf(room, out)
	}
	for i := range asks {
		if len(asks[i].Groups) > 0 {
			list[i].add(counted[i])
		}
	}
	return servicesOf(v), nil
}

// withHostsOf returns a view that has, of all providers, the roots of the hosts that Placement has counted or left out.
func withHostsOf(v *fleet.View, room placement.Headroom) *fleet.View {
	s := *v.Snapshot
	add := func(name string, traits ...resource.Trait) {
		p := provider.Provider{ID: provider.ID(name), Root: provider.ID(name), Name: name, Traits: traits}
		s.Providers = append(s.Providers, fleet.Provider{Provider: p})
	}
	for _, h := range room.ByHost {
		if h.Excluded != "" {
			add(h.Host, hosttree.StatusDisabled)
		} else {
			add(h.Host)
		}
	}
	for _, name := range room.NoRoom {
		add(name)
	}
	return fleet.NewView(&s)
}

// countOf returns the count of Placement without the hosts that are out of service.
func countOf(room placement.Headroom, out []fleet.OutOfService) headroom.Result {
	r := headroom.Result{Excluded: out}
	r.Fits, r.Exact, r.Shared, r.Reason = room.Fits, room.Exact, room.Shared, room.Reason
	for _, h := range room.ByHost {
		if h.Excluded != "" {
			continue
		}
		one := headroom.Host{Name: h.Host, Fits: h.Fits}
		for _, class := range h.Lacks {
			one.Lacks = append(one.Lacks, resource.Class(class))
		}
		r.Hosts = append(r.Hosts, one)
	}
	for _, c := range room.RunsOut {
		r.RunsOut = append(r.RunsOut, headroom.RunsOut{Class: resource.Class(c.Class), Hosts: c.Hosts})
	}
	return r
}

// notOfHeadroom are the parts of a snapshot that do not decide where a server fits.
var notOfHeadroom = []fleet.Part{fleet.Servers, fleet.Migrations, fleet.Ports, fleet.Agents, fleet.Reported}

// describedPorts parses the descriptions of ports.
func describedPorts(texts []string) (ports []fleet.PortRequest, err error) {
	for n, text := range texts {
		port, err := fleet.ParsePort(text, n)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// add adds what was counted.
func (f *flavorHeadroom) add(r headroom.Result) {
	f.Fits, f.Exact, f.Reason, f.Shared = r.Fits, r.Exact, r.Reason, r.Shared
	for _, h := range r.Hosts {
		f.ByHost = append(f.ByHost, host.HostHeadroom{Host: h.Name, Fits: h.Fits, Exact: r.Exact,
			Lacks: strs(h.Lacks)})
	}
	for _, e := range r.Excluded {
		f.ByHost = append(f.ByHost, host.HostHeadroom{Host: e.Host, Exact: true, Excluded: e.Why})
	}
	for _, one := range r.RunsOut {
		f.RunsOut = append(f.RunsOut, host.RunsOut{Class: string(one.Class), Hosts: one.Hosts})
	}
}
