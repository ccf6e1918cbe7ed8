package numa_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// TestRank tests the truth tables of docs/behaviour/nova-pci.md 3.7: which device a guest on these nodes may use.
func TestRank(t *testing.T) {
	cells := func(sockets ...int) (list []numa.Cell) {
		for id, s := range sockets {
			list = append(list, numa.Cell{ID: id, Socket: s})
		}
		return list
	}
	two, oneSocket, unknown := cells(0, 1), cells(0, 0, 1), cells(0, 0, numa.NoSocket)
	const none = pci.NoNUMA
	for _, c := range []struct {
		rows   string
		policy pci.NUMAPolicy
		device int
		nodes  []int
		cells  []numa.Cell
		want   int
	}{
		{"T7 N4: a device on an unknown node", pci.Required, none, []int{1}, two, -1},
		{"N4: a device on another node", pci.Required, 0, []int{1}, two, -1},
		{"N4 N12: a device on the guest's node", pci.Required, 1, []int{1}, two, numa.Local},
		{"T7 N4: a device on an unknown node", pci.Legacy, none, []int{1}, two, numa.Fair},
		{"N4: a device on another node", pci.Legacy, 0, []int{1}, two, -1},
		{"N4: a device on the guest's node", pci.Legacy, 1, []int{1}, two, numa.Local},
		{"N4: no policy is legacy", "", 0, []int{1}, two, -1},
		{"T7 N4: a device on an unknown node", pci.Preferred, none, []int{1}, two, numa.Fair},
		{"N1 N4: a device on another node", pci.Preferred, 0, []int{1}, two, numa.Distant},
		{"N4: a device on the guest's node", pci.Preferred, 1, []int{1}, two, numa.Local},
		{"T6: a guest on two nodes", pci.Legacy, 1, []int{0, 1}, two, numa.Local},
		{"N5 T8: another node of the socket", pci.Socket, 1, []int{0}, oneSocket, numa.Fair},
		{"N6 T8: another socket", pci.Socket, 2, []int{0}, oneSocket, -1},
		{"N7: one of the guest's sockets", pci.Socket, 0, []int{1, 2}, oneSocket, numa.Fair},
		{"T8: the guest's own node", pci.Socket, 0, []int{0}, unknown, numa.Local},
		{"T8: a cell without socket", pci.Socket, 1, []int{0}, unknown, -1},
		{"socket: a device on an unknown node", pci.Socket, none, []int{0}, oneSocket, -1},
		{"socket: a device on a node that the host does not report", pci.Socket, 7, []int{0}, oneSocket, -1},
		{"a guest without NUMA cells", pci.Required, 0, nil, two, numa.Local},
	} {
		t.Run(fmt.Sprintf("%s %s device %d guest %v", c.rows, c.policy, c.device, c.nodes), func(t *testing.T) {
			if got := numa.Rank(c.policy, c.device, c.nodes, c.cells); got != c.want {
				t.Errorf("rank %d, want %d", got, c.want)
			}
		})
	}
}
