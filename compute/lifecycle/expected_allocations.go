package lifecycle

import (
	"slices"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Expectation is what a consumer of a server must hold in Placement because of its residence on a host.
type Expectation struct {
	Consumer   string
	Also       []string            // consumers that may hold it instead while it is transferred
	Root       provider.ID         // root provider of the host at the time of the claim
	Allocation resource.Allocation // the claimed allocation. Placement may have more: agents add device allocations
	Cells      []numa.GuestCell    // of the guest
	Placed     []numa.Placed       // their places, if the agent has reported them
}

// On returns what the consumer must hold of a host as it is now: compute may have claimed it before the host had
// providers of NUMA nodes, or when it still had them.
func (e Expectation) On(h schedule.Host) resource.Allocation {
	return h.InForm(e.Allocation, e.Root, e.Cells, e.Placed)
}

// Expected lists what the consumers of the server must hold in Placement because of their residences on a host. What is
// about to be released and what is not claimed yet is omitted.
func (s Server) Expected(host string) []Expectation {
	var list []Expectation
	for _, residence := range s.Residences() {
		if residence.Host != host || residence.Gone || residence.Choice == nil {
			continue
		}
		one := Expectation{Consumer: residence.Consumer, Root: residence.Choice.Root,
			Allocation: WithoutPorts(residence.Choice.Allocation), Cells: residence.Topology, Placed: residence.Cells}
		transfers := []MovePhase{MovingAllocations, RestoringAllocations, RevertBlocked}
		if m := s.Move; m != nil && slices.Contains(transfers, m.Phase) {
			one.Also = []string{s.ID, m.Consumer, m.From.Consumer}
		}
		list = append(list, one)
	}
	return list
}

// WithoutPorts returns an allocation without the classes that ports request: the network service changes their amounts
// with the QoS policy of a port.
func WithoutPorts(a resource.Allocation) resource.Allocation {
	rest := resource.Allocation{}
	for id, amounts := range a {
		for class, n := range amounts {
			if bandwidth.IsPortClass(class) {
				continue
			}
			if rest[id] == nil {
				rest[id] = resource.Amounts{}
			}
			rest[id][class] = n
		}
	}
	return rest
}
