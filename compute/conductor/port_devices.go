package conductor

import (
	"context"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// devicesOfPorts returns the devices that the agent of the server's host has picked for its ports, by port. It returns
// fault.Unavailable while the report of the host does not have one of them.
func (d *portBinder) devicesOfPorts(ctx context.Context, s lifecycle.Server) (map[string]pci.Offered, error) {
	var host schedule.Host
	devices := map[string]pci.Offered{}
	for _, p := range s.Ports {
		picked, needed := s.DeviceOf(p.ID)
		if !needed {
			continue
		}
		if host.Name == "" {
			var err error
			if host, err = d.store.Host(ctx, s.Host); err != nil {
				return nil, err
			}
		}
		at := slices.IndexFunc(host.Devices, func(o pci.Offered) bool { return o.Address.String() == picked.Address })
		if at < 0 {
			return nil, fault.New(fault.Unavailable, "port %s is not bound yet: the report of "+
				"host %s does not have its device %q", p.ID, s.Host, picked.Address)
		}
		devices[p.ID] = host.Devices[at]
	}
	return devices, nil
}

// bindPickedPort binds a port that is being attached with the device that the agent has picked for it.
func (d *portBinder) bindPickedPort(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	change, withPort := *s.PortChange, s
	withPort.Ports = []lifecycle.Port{*change.Port}
	devices, err := d.devicesOfPorts(ctx, withPort)
	if err != nil {
		return nil, err
	}
	p, err := portBinding{portBinder: d, server: s, devices: devices, verify: true}.bind(ctx, *change.Port)
	switch {
	case err == nil:
		return lifecycle.PortAttached{ID: change.ID, Port: p}, nil
	case scheduler.RefusedByNetwork(err) && fault.CodeOf(err) != placement.CodeConcurrentUpdate:
		return lifecycle.PortRefused{ID: change.ID, Reason: fault.TextOf(err)}, nil
	}
	return nil, err
}

// guaranteesOf returns what a port of a record requests, on the providers of its allocation.
func guaranteesOf(p lifecycle.Port) resource.Allocation {
	all := resource.Allocation{}
	for _, g := range p.Groups {
		if at := p.Allocation[g.Suffix]; at != "" {
			all = all.Add(resource.Allocation{at: g.Resources})
		}
	}
	return all
}
