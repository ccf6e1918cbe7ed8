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

// Nearest returns the nodes with CPUs that are nearest to a device on a node, all that are equally near, by number. A
// node with CPUs is the nearest to its own devices. The nodes without CPUs are those of memory, such as of a GPU. The
// result is empty if the node is not known (pci.NoNUMA) or its distances are not.
func (t Topology) Nearest(device int) []Node {
	at := slices.IndexFunc(t, func(n Node) bool { return n.ID == device })
	if at < 0 || t[at].CPUs {
		return t[max(at, 0) : at+1]
	}
	var nearest []Node
	for _, n := range t {
		far, known := t[at].Distances[n.ID]
		switch {
		case !n.CPUs || !known || len(nearest) > 0 && far > t[at].Distances[nearest[0].ID]:
		case len(nearest) > 0 && far == t[at].Distances[nearest[0].ID]:
			nearest = append(nearest, n)
		default:
			nearest = []Node{n}
		}
	}
	return nearest
}

// OnSocketOf returns the nodes with CPUs on the sockets of these nodes, by number. It is empty if the socket of any
// node with CPUs of the host is unknown.
func (t Topology) OnSocketOf(nodes []Node) (on []Node) {
	for _, n := range t {
		if n.CPUs && n.Socket == NoSocket {
			return nil
		}
		if n.CPUs && slices.ContainsFunc(nodes, func(of Node) bool { return of.Socket == n.Socket }) {
			on = append(on, n)
		}
	}
	return on
}

// Describe returns the place of a device on a node as text, such as "node 2 without CPUs (nearest nodes with CPUs: 0
// and 1, distance 40)".
func (t Topology) Describe(device int) string {
	if device == pci.NoNUMA {
		return "no known node"
	}
	text := fmt.Sprintf("node %d", device)
	at := slices.IndexFunc(t, func(n Node) bool { return n.ID == device })
	if at < 0 || t[at].CPUs {
		return text
	}
	nearest := t.Nearest(device)
	if len(nearest) == 0 {
		return text + " without CPUs (its distance from nodes with CPUs is unknown)"
	}
	var ids []string
	for _, n := range nearest {
		ids = append(ids, fmt.Sprint(n.ID))
	}
	noun := "node"
	if len(ids) > 1 {
		noun = "nodes"
	}
	return fmt.Sprintf("%s without CPUs (nearest %s with CPUs: %s, distance %d)", text, noun, strings.Join(ids, " and "),
		t[at].Distances[nearest[0].ID])
}
