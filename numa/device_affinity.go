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
// device. Without nodes the guest has no NUMA cells, and the policy has no effect ("" is pci.Legacy). A device counts
// as on its nearest nodes with CPUs (Topology.Near).
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
	near := host.Near(device)
	switch {
	case common(near, nodes):
		return Local
	case policy == pci.Required:
		return -1
	case policy == pci.Socket:
		if common(host.Beside(near), nodes) {
			return Fair
		}
		return -1
	case len(near) == 0:
		return Fair
	case policy == pci.Preferred:
		return Distant
	}
	return -1
}

// common reports whether two lists have a number in common.
func common(a, b []int) bool {
	return slices.ContainsFunc(a, func(n int) bool { return slices.Contains(b, n) })
}
