package conductor

import (
	"cmp"
	"context"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// wantsOf returns what a port of a server requests. A NUMA policy that the flavor must not have is left out: the flavor
// was checked before.
func wantsOf(s lifecycle.Server, port lifecycle.Port, p network.Port, n network.Network) portrequest.Port {
	policy, _ := flavor.DeviceAffinity(s.Flavor, s.SourceImage())
	want := portrequest.Port{ID: port.ID, VNICType: port.VNIC, PhysicalNetworks: n.PhysicalNetworks(),
		SameSubtree: port.SameSubtree, NUMAPolicy: cmp.Or(p.NUMAAffinity, string(policy)), Trusted: p.Trusted()}
	for _, g := range port.Groups {
		want.Groups = append(want.Groups, portrequest.Group{ID: g.Suffix, Required: g.Required, Resources: g.Resources})
	}
	return want
}

// withPorts adds what ports request to the request of a flavor, and returns the devices that they need. Placement is
// asked for devices if an agent reports those for ports. It returns fault.Invalid for a port that no host can serve,
// and fault.Conflict for a group with the name of one of the flavor.
func (r reading) withPorts(ctx context.Context, ask resource.Ask, wants []portrequest.Port) (resource.Ask,
	[]pci.Request, error) {
	counted, err := r.portDevicesCounted(ctx, wants)
	if err != nil {
		return ask, nil, err
	}
	request, err := portrequest.Make(wants, portrequest.Options{DevicesInPlacement: counted})
	if err != nil {
		return ask, nil, err
	}
	for _, device := range request.Devices {
		at := slices.IndexFunc(wants, func(p portrequest.Port) bool { return p.ID == device.Port.ID })
		if !counted && len(wants[at].Groups) > 0 {
			return ask, nil, fault.New(fault.Invalid, "port %s has a guarantee and needs a device of "+
				"the same NIC, and no host reports such devices to Placement; set [berth] report_network_devices = true on "+
				"the hosts", device.Port.ID)
		}
	}
	ask, err = portrequest.Add(ask, request)
	return ask, request.Devices, err
}

// portDevicesCounted reports whether an agent reports devices for ports to Placement and one of the ports needs a
// device.
func (r reading) portDevicesCounted(ctx context.Context, wants []portrequest.Port) (bool, error) {
	if !slices.ContainsFunc(wants, func(p portrequest.Port) bool {
		_, needed := portrequest.Class(p.VNICType)
		return needed
	}) {
		return false, nil
	}
	hosts, err := r.store.Hosts(ctx)
	return schedule.PortDevicesCounted(hosts), err
}

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
	case refusedByNetwork(err) && fault.CodeOf(err) != placement.CodeConcurrentUpdate:
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
