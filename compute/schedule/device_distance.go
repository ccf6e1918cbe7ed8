package schedule

import (
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// distances returns a function that returns how far the devices of a choice are from the guest, as the sum of their
// ranks; 0: each is on a node of the guest. It returns nil if the distance does not count: the guest has no NUMA cells,
// or no port has a policy that prefers near devices and permits others. The devices of aliases do not count: their
// providers are not rated.
func (p Input) distances(requests []pci.Request, left map[provider.ID]*remaining) func(Choice) int {
	rated := slices.ContainsFunc(requests, func(r pci.Request) bool {
		return r.Port != nil && (r.Policy == pci.Preferred || r.Policy == pci.Socket)
	})
	if !rated || len(p.Cells)+len(p.Placed) == 0 {
		return nil
	}
	return func(c Choice) int {
		rest := left[c.Root]
		wanted, nodes := p.Hosts[c.Root].newDemand(rest.free, slotsOf(requests, c.Mappings)), nodesOf(p.Placed)
		if len(nodes) == 0 {
			placed, _ := numa.Fit(rest.room, numa.Guest{Cells: p.Cells, Devices: true},
				numa.Judge{Accept: wanted.checkNear, Kind: wanted.nodeKinds(), Far: wanted.far})
			nodes = nodesOf(placed)
		}
		return wanted.far(nodes)
	}
}

// near assigns a device to each slot for a guest on these nodes, by the NUMA policy of each request.
func (b demand) near(nodes []int) (picked []int, missing int) {
	return b.fit(func(r *pci.Request, d pci.Offered) int { return numa.Rank(r.Policy, d.NUMANode, nodes, b.host.Nodes) })
}

// far returns the sum of the ranks of the devices of ports for a guest on these nodes.
func (b demand) far(nodes []int) (sum int) {
	picked, _ := b.near(nodes)
	for i, d := range picked {
		if r := b.slots[i].request; d >= 0 && r.Port != nil {
			sum += max(numa.Rank(r.Policy, b.devices[d].NUMANode, nodes, b.host.Nodes), 0)
		}
	}
	return sum
}

// nodesOf returns the host nodes of a placement, ascending.
func nodesOf(placed []numa.Placed) (nodes []int) {
	for _, p := range placed {
		nodes = append(nodes, p.Node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
