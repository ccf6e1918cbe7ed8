package cli

import (
	"context"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/headroom"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/hosttree"
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
	v, err := readFleet(ctx, g, read.Options{Named: traits, Shared: true, Without: notOfHeadroom, Whole: true})
	if err != nil {
		return nil, nil, err
	}
	for i, ask := range asks {
		if len(ask.Groups) > 0 {
			list[i].add(headroom.Count(v, ask, func() bool { return ctx.Err() != nil }))
		}
	}
	services := map[string]string{}
	for _, h := range v.Hypervisors {
		services[h.Name] = h.Host
	}
	return list, services, nil
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
