package ports

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/allocations"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file sets what Placement has for the ports of a server. The network service changes the same amounts when the
// policy of a bound port changes: it writes the allocation first, and the port after it. Until the port is written, the
// allocation has amounts that no port explains.

// Amounts describes what a server must have for its ports in Placement: what the network service says of all other
// ports, and of for the port that is being changed.
type Amounts struct {
	Port    string              // the port that is being changed; empty if there is none
	Was     resource.Allocation // bandwidth and packet rate that it had before; empty if that is not known
	Of      resource.Allocation // what it must have, with its device
	Devices bool                // devices of ports that the record of the server does not have are removed, too
	Keep    map[string]string   // ports that keep what the record has; the values are not used
}

// SettleTries is how often amounts that no port explains are read again, 10 ms and more apart: together 2 seconds.
const SettleTries = 20

// SetAmounts sets the amounts that a server has for its ports in Placement. What it has of other classes stays,
// also on a provider that has less room than is in use. The ports are read after the allocation, whose generation
// guards the write, so a policy that changes meanwhile is not overwritten. While the allocation has amounts that no
// port explains, it waits: the network service is about to write the port. If they stay, they are removed.
func (b *Binder) SetAmounts(ctx context.Context, s lifecycle.Server, want Amounts) error {
	waits := 0
	err := b.Writer.Retry(ctx, func(int) error {
		held, ports, err := b.settledAmounts(ctx, s, want, &waits)
		if err != nil {
			return err
		}
		return b.putPortAmounts(ctx, s, want, held, ports)
	})
	if allocations.Changed(err) {
		err = fault.New(fault.Unavailable, "the allocation of server %s changes too often", s.ID)
	}
	return err
}

// settledAmounts returns the allocation and the ports of a server. It reads them again while the allocation has amounts
// that no port explains, until waits is SettleTries.
func (b *Binder) settledAmounts(ctx context.Context, s lifecycle.Server, want Amounts, waits *int) (
	held placement.ConsumerAllocation, ports []network.Port, err error) {
	for {
		if held, err = b.Writer.Allocation(ctx, resource.ConsumerID(s.ID)); err != nil {
			return held, nil, err
		}
		if ports, err = b.Scheduler.PortsOf(ctx, s); err != nil {
			return held, nil, err
		}
		if *waits >= SettleTries || explained(portClassesOf(held.Allocation), s, ports, want) {
			return held, ports, nil
		}
		*waits++
		b.Writer.Pause(ctx, *waits)
	}
}

// putPortAmounts writes the amounts that a server with these ports must have for them instead of what it has held.
func (b *Binder) putPortAmounts(ctx context.Context, s lifecycle.Server, want Amounts,
	held placement.ConsumerAllocation, ports []network.Port) error {
	next := lifecycle.WithoutPorts(held.Allocation)
	if want.Devices {
		next = withoutFurtherDevices(s, next)
	}
	next = next.Add(want.others(s, ports).Add(want.Of))
	if next.Equal(held.Allocation) {
		return nil
	}
	put := func(a, kept resource.Allocation) error {
		held.Allocation, held.Project, held.User, held.ConsumerType = a, s.Project, s.User, "INSTANCE"
		held.Mappings = nil
		return b.Writer.Put(ctx, map[resource.ConsumerID]placement.ConsumerAllocation{resource.ConsumerID(s.ID): held}, kept)
	}
	less := held.Allocation.Common(next)
	grows := less.Equal(held.Allocation)
	err := put(next, less)
	if err != nil && placement.Refused(err) && len(want.Of) == 0 && !grows {
		// another port requests more than there is room for, which must not keep this one from being released
		err = put(less, less)
	}
	return err
}

// others returns what the ports of a server have for themselves, without the changed one. A port that is not bound to
// the host has what was claimed for it there, by the record.
func (a Amounts) others(s lifecycle.Server, ports []network.Port) resource.Allocation {
	all := resource.Allocation{}
	for _, p := range without(ports, a.Port) {
		at := slices.IndexFunc(s.Ports, func(o lifecycle.Port) bool { return o.ID == p.ID })
		if _, keeps := a.Keep[p.ID]; at >= 0 && (keeps || p.Host != s.Host) {
			all = all.Add(guaranteesOf(s.Ports[at]))
		} else {
			all = all.Add(amountsOf([]network.Port{p}))
		}
	}
	return all
}

// explained reports whether the amounts of bandwidth and packet rate that a server has are those of its ports: of the
// ports as they are, with or without what the changed port requests, had, has claimed or has in the record of the
// server; or of all ports of the record, which a reverted move restores.
func explained(held resource.Allocation, s lifecycle.Server, ports []network.Port, want Amounts) bool {
	others, requested := want.others(s, ports), resource.Allocation{}
	for _, p := range ports {
		for _, g := range scheduler.GroupsOf(p) {
			if p.ID == want.Port {
				requested = requested.Add(resource.Allocation{"": g.Resources})
			}
		}
	}
	if len(others.Excess(held)) == 0 && total(held.Excess(others)).Equal(requested) {
		return true
	}
	known := []resource.Allocation{others, others.Add(want.Was)}
	if c := s.PortChange; c != nil && c.Port != nil {
		known = append(known, others.Add(guaranteesOf(*c.Port)))
	}
	recorded := resource.Allocation{}
	for _, p := range s.Ports {
		recorded = recorded.Add(guaranteesOf(p))
		if p.ID == want.Port {
			known = append(known, others.Add(guaranteesOf(p)))
		}
	}
	return slices.ContainsFunc(append(known, recorded), held.Equal)
}

// total returns the amounts of all providers together, without a provider.
func total(a resource.Allocation) resource.Allocation {
	all := resource.Allocation{}
	for _, amounts := range a {
		all = all.Add(resource.Allocation{"": amounts})
	}
	return all
}

// amountsOf returns what bound ports have in Placement: the amounts of their groups on the providers of their
// allocation.
func amountsOf(ports []network.Port) resource.Allocation {
	all := resource.Allocation{}
	for _, p := range ports {
		if p.Request == nil {
			continue
		}
		on := p.Allocation()
		for _, g := range p.Request.Groups {
			if at := provider.ID(on[g.ID]); at != "" {
				all = all.Add(resource.Allocation{at: g.Resources})
			}
		}
	}
	return all
}

// without returns ports without one.
func without(ports []network.Port, id string) []network.Port {
	return slices.DeleteFunc(slices.Clone(ports), func(p network.Port) bool { return p.ID == id })
}

// withoutFurtherDevices returns an allocation with at most those devices of ports that the record of a server has: in
// the claimed allocation, which has those that the flavor requests too, or by the requests of its ports.
func withoutFurtherDevices(s lifecycle.Server, a resource.Allocation) resource.Allocation {
	requested, claimed := s.DeviceAmounts(), resource.Allocation{}
	if len(s.Choices) > 0 {
		claimed = s.Choices[0].Allocation
	}
	rest := resource.Allocation{}
	for id, amounts := range a {
		amounts = maps.Clone(amounts)
		for class, n := range amounts {
			if portrequest.IsDeviceClass(class) {
				amounts[class] = min(n, max(requested[id][class], claimed[id][class]))
			}
		}
		rest[id] = amounts.Positive()
	}
	return rest.Add(nil)
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

// portClassesOf returns the part of an allocation that ports request.
func portClassesOf(a resource.Allocation) resource.Allocation {
	return a.Excess(lifecycle.WithoutPorts(a))
}
