package numa

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
)

// NoSocket is the socket of a node if the host does not report it.
const NoSocket = -1

// Node is one NUMA node of a host as its kernel describes it, also a node that gives nothing to guests.
type Node struct {
	ID        int         // the kernel's number
	CPUs      bool        // it has CPUs, for guests or for the host
	Socket    int         // physical package of its CPUs, or NoSocket
	Distances map[int]int // to each node, by number; nil: unknown
}

// Topology is all NUMA nodes of a host, by number.
type Topology []Node

// Near returns the numbers of the nodes with CPUs that are nearest to a device on a node, all that are equally near. A
// node with CPUs is the nearest to its own devices. The nodes without CPUs are those of memory, such as of a GPU. The
// result is nil if the node is not known (pci.NoNUMA) or its distances are not.
func (t Topology) Near(device int) (nodes []int) {
	own := t.node(device)
	if own == nil || own.CPUs {
		return own.number()
	}
	for _, n := range t {
		far, known := own.Distances[n.ID]
		switch {
		case !n.CPUs || !known || len(nodes) > 0 && far > own.Distances[nodes[0]]:
		case len(nodes) > 0 && far == own.Distances[nodes[0]]:
			nodes = append(nodes, n.ID)
		default:
			nodes = []int{n.ID}
		}
	}
	return nodes
}

// Beside returns the numbers of the nodes with CPUs on the sockets of nodes, including these. The result is nil if the
// socket of any node with CPUs of the host is unknown.
func (t Topology) Beside(nodes []int) (beside []int) {
	sockets := map[int]bool{}
	for _, n := range t {
		if n.CPUs && n.Socket == NoSocket {
			return nil
		}
		if slices.Contains(nodes, n.ID) {
			sockets[n.Socket] = true
		}
	}
	for _, n := range t {
		if n.CPUs && sockets[n.Socket] {
			beside = append(beside, n.ID)
		}
	}
	return beside
}

// node returns the node with a number, or nil.
func (t Topology) node(id int) *Node {
	if at := slices.IndexFunc(t, func(n Node) bool { return n.ID == id }); at >= 0 {
		return &t[at]
	}
	return nil
}

// number returns the number of a node, or nothing for nil.
func (n *Node) number() []int {
	if n == nil {
		return nil
	}
	return []int{n.ID}
}

// Describe returns the place of a device on a node as text, such as "node 2 without CPUs (nearest nodes with CPUs: 0
// and 1, distance 40)".
func (t Topology) Describe(device int) string {
	if device == pci.NoNUMA {
		return "no known node"
	}
	text, own := fmt.Sprintf("node %d", device), t.node(device)
	if own == nil || own.CPUs {
		return text
	}
	near := t.Near(device)
	if len(near) == 0 {
		return text + " without CPUs (its distance from nodes with CPUs is unknown)"
	}
	noun := "node"
	if len(near) > 1 {
		noun = "nodes"
	}
	list := strings.ReplaceAll(strings.Trim(fmt.Sprint(near), "[]"), " ", " and ")
	return fmt.Sprintf("%s without CPUs (nearest %s with CPUs: %s, distance %d)", text, noun, list,
		own.Distances[near[0]])
}
