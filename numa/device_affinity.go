package numa

import (
	"slices"

	"github.com/openberth/berth/pci"
)

// The ranks of a device for a guest; a lower rank is nearer.
const (
	Local   = 0 // one of its nearest nodes with CPUs is a node of the guest
	Fair    = 1 // its nearest nodes are unknown, or are on a socket of the guest
	Distant = 2
)

// Rank returns how near a device on node device is to a guest on nodes, or -1 if the policy does not allow the
// device. Without nodes the guest has no NUMA cells, and the policy has no effect ("" is pci.Legacy). The place of a
// device are its nearest nodes with CPUs (Topology.Nearest).
//
//	nearest to the device   the guest's node   a node of its socket   another node   unknown
//	required                Local              -                      -              -
//	legacy                  Local              -                      -              Fair
//	socket                  Local              Fair                   -              -
//	preferred               Local              Distant                Distant        Fair
//
// If the socket of any node with CPUs of the host is unknown, socket is the same as required.
func Rank(policy pci.NUMAPolicy, device int, nodes []int, host Topology) int {
	if len(nodes) == 0 || slices.Contains(nodes, device) {
		return Local
	}
	nearest := host.Nearest(device)
	switch {
	case anyOf(nearest, nodes):
		return Local
	case policy == pci.Required:
		return -1
	case policy == pci.Socket:
		if anyOf(host.OnSocketOf(nearest), nodes) {
			return Fair
		}
		return -1
	case len(nearest) == 0:
		return Fair
	case policy == pci.Preferred:
		return Distant
	}
	return -1
}

// anyOf reports whether one of the nodes has one of the numbers.
func anyOf(nodes []Node, numbers []int) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool { return slices.Contains(numbers, n.ID) })
}
