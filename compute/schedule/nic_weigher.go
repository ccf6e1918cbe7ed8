package schedule

import (
	"cmp"
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Room is what a provider can allocate of one class, and what is allocated.
type Room struct{ Capacity, Used int }

// NIC is a provider in the trees of the candidates, with the classes of bandwidth that it has.
type NIC struct {
	Parent    provider.ID
	Bandwidth map[resource.Class]Room
}

// PortDevicesCounted reports whether the agent of a host reports devices for ports in Placement.
func PortDevicesCounted(hosts []Host) bool {
	return slices.ContainsFunc(hosts, func(h Host) bool {
		return slices.ContainsFunc(h.Devices, func(d pci.Offered) bool {
			return d.PhysicalNetwork != nil && d.Provider != ""
		})
	})
}

// portDevices are the classes of devices for ports.
var portDevices = []resource.Class{pci.PortVF, pci.PortNIC, pci.PortVDPA}

// nicWeight rates the NICs of a candidate. Less is better; the first field decides. Shares are in steps of 10 %.
type nicWeight struct {
	// distance is how far the devices of ports are from the guest, if their NUMA policy permits several nodes.
	distance int
	// spoiled is the largest unallocated share of the bandwidth of a NIC that loses a device to a port without a
	// guarantee.
	spoiled int
	// exhausted is the largest share of a NIC's bandwidth that is allocated with the candidate.
	exhausted int
}

func (w nicWeight) compare(o nicWeight) int {
	return cmp.Or(cmp.Compare(w.distance, o.distance), cmp.Compare(w.spoiled, o.spoiled),
		cmp.Compare(w.exhausted, o.exhausted))
}

// nicWeight returns the weight of a candidate: it keeps ports with a guarantee away from nearly exhausted NICs, and
// ports without one away from NICs with bandwidth left for guarantees.
func (p Input) nicWeight(c Candidate) (w nicWeight) {
	guaranteed := map[provider.ID]int{} // ports with a guarantee, by the NIC's provider
	for _, ids := range c.Mappings {
		for _, id := range ids {
			if len(p.NICs[id].Bandwidth) > 0 {
				guaranteed[id]++
			}
		}
	}
	for id, amounts := range c.Allocation {
		for class, room := range p.NICs[id].Bandwidth {
			if amounts[class] > 0 {
				w.exhausted = max(w.exhausted, tenths(room.Used+amounts[class], room.Capacity))
			}
		}
		devices := 0
		for _, class := range portDevices {
			devices += amounts[class]
		}
		if parent := p.NICs[id].Parent; devices > guaranteed[parent] {
			for class, room := range p.NICs[parent].Bandwidth {
				left := room.Capacity - room.Used - c.Allocation[parent][class]
				w.spoiled = max(w.spoiled, tenths(left, room.Capacity))
			}
		}
	}
	return w
}

// tenths returns a share in steps of 10 %, rounded up, from 0 to 10.
func tenths(part, whole int) int {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return min((part*10+whole-1)/whole, 10)
}

// sortByNIC sorts the candidates of each host, the best one first; equal ones stay in their order. It returns the
// weight of the best one of each host. distance returns how far the devices of a choice are; nil: it does not count.
func (p Input) sortByNIC(accepted map[provider.ID][]Choice, distance func(Choice) int) map[provider.ID]nicWeight {
	best := map[provider.ID]nicWeight{}
	if len(p.NICs) == 0 && distance == nil {
		return best
	}
	for root, list := range accepted {
		type weighed struct {
			choice Choice
			weight nicWeight
		}
		rated := make([]weighed, 0, len(list))
		for _, c := range list {
			weight := p.nicWeight(Candidate{Root: c.Root, Allocation: c.Allocation, Mappings: c.Mappings})
			if distance != nil {
				weight.distance = distance(c)
			}
			rated = append(rated, weighed{c, weight})
		}
		slices.SortStableFunc(rated, func(a, b weighed) int { return a.weight.compare(b.weight) })
		for i := range rated {
			list[i] = rated[i].choice
		}
		best[root] = rated[0].weight
	}
	return best
}
