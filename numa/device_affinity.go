package numa

import (
	"slices"

	"github.com/openberth/berth/pci"
)

// The ranks of a device for a guest; a lower rank is nearer.
const (
	Local   = 0 // on one of the guest's nodes
	Fair    = 1 // on an unknown node, or on a socket of the guest
	Distant = 2
)

// Rank returns how near a device on node device is to a guest on nodes, or -1 if the policy does not allow the
// device. Without nodes the guest has no NUMA cells, and the policy has no effect ("" is pci.Legacy).
//
//	device is on   the guest's node   a node of its socket   another node   no known node
//	required       Local              -                      -              -
//	legacy         Local              -                      -              Fair
//	socket         Local              Fair                   -              -
//	preferred      Local              Distant                Distant        Fair
//
// If the socket of any of the host's cells is unknown, socket is the same as required.
func Rank(policy pci.NUMAPolicy, device int, nodes []int, cells []Cell) int {
	switch {
	case len(nodes) == 0 || slices.Contains(nodes, device):
		return Local
	case policy == pci.Required:
		return -1
	case policy == pci.Socket:
		if sameSocket(device, nodes, cells) {
			return Fair
		}
		return -1
	case device == pci.NoNUMA:
		return Fair
	case policy == pci.Preferred:
		return Distant
	}
	return -1
}

func sameSocket(device int, nodes []int, cells []Cell) bool {
	of := map[int]int{}
	for _, c := range cells {
		if c.Socket == NoSocket {
			return false
		}
		of[c.ID] = c.Socket
	}
	socket, known := of[device]
	return known && slices.ContainsFunc(nodes, func(n int) bool { s, known := of[n]; return known && s == socket })
}
