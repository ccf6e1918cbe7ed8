package conductor

import (
	"maps"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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
