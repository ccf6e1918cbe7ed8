package numa_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// TestRank tests the truth tables of docs/behaviour/nova-pci.md 3.7: which device a guest on these nodes may use.
func TestRank(t *testing.T) {
	of := func(sockets ...int) (list numa.Topology) {
		for id, s := range sockets {
			list = append(list, numa.Node{ID: id, CPUs: true, Socket: s})
		}
		return list
	}
	two, oneSocket, unknown := of(0, 1), of(0, 0, 1), of(0, 0, numa.NoSocket)
	// Node 2 is the memory of a GPU of socket 0, node 3 of one of socket 1; node 4 is as near to both sockets, and of node
	// 5 the distances are unknown.
	gpus := append(of(0, 1), numa.Node{ID: 2, Socket: numa.NoSocket, Distances: map[int]int{0: 80, 1: 120, 2: 10, 3: 40}},
		numa.Node{ID: 3, Socket: numa.NoSocket, Distances: map[int]int{0: 120, 1: 80, 2: 40, 3: 10}},
		numa.Node{ID: 4, Socket: numa.NoSocket, Distances: map[int]int{0: 40, 1: 40, 2: 10}}, numa.Node{ID: 5})
	const none = pci.NoNUMA
	for _, c := range []struct {
		rows   string
		policy pci.NUMAPolicy
		device int
		nodes  []int
		host   numa.Topology
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
		{"a GPU near node 0", pci.Required, 2, []int{0}, gpus, numa.Local},
		{"a GPU near node 0", pci.Required, 2, []int{1}, gpus, -1},
		{"a GPU near node 0", pci.Legacy, 2, []int{1}, gpus, -1},
		{"a GPU near node 0", pci.Socket, 2, []int{1}, gpus, -1},
		{"a GPU near node 0", pci.Preferred, 2, []int{1}, gpus, numa.Distant},
		{"a GPU near node 1", pci.Legacy, 3, []int{1}, gpus, numa.Local},
		{"a device near both nodes", pci.Required, 4, []int{0}, gpus, numa.Local},
		{"a device near both nodes", pci.Required, 4, []int{1}, gpus, numa.Local},
		{"unknown distances", pci.Required, 5, []int{0}, gpus, -1},
		{"unknown distances", pci.Socket, 5, []int{0}, gpus, -1},
		{"unknown distances", pci.Legacy, 5, []int{0}, gpus, numa.Fair},
		{"unknown distances", pci.Preferred, 5, []int{0}, gpus, numa.Fair},
	} {
		t.Run(fmt.Sprintf("%s %s device %d guest %v", c.rows, c.policy, c.device, c.nodes), func(t *testing.T) {
			if got := numa.Rank(c.policy, c.device, c.nodes, c.host); got != c.want {
				t.Errorf("rank %d, want %d", got, c.want)
			}
		})
	}
}

// TestRankAgreesWithDefinitions compares Rank with the definitions of the policies on random hosts: some nodes have no
// CPUs, sockets may be unknown, and distances may be equal.
func TestRankAgreesWithDefinitions(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	seen := map[string]int{}
	for range 20000 {
		host, guest := randomTopology(rng)
		device := rng.IntN(len(host)+2) - 1 // -1: pci.NoNUMA; the last one does not exist
		policy := []pci.NUMAPolicy{pci.Required, pci.Legacy, pci.Socket, pci.Preferred}[rng.IntN(4)]
		got, want := numa.Rank(policy, device, guest, host), rankByDefinition(policy, device, guest, host)
		if got != want {
			t.Fatalf("%s, device on %d, guest on %v: rank %d, want %d\n%+v", policy, device, guest, got, want, host)
		}
		seen[fmt.Sprint(policy, want)]++
	}
	if len(seen) != 11 { // three ranks of socket and legacy, two of required, three of preferred
		t.Errorf("the cases are too similar: %v", seen)
	}
}

// randomTopology returns the nodes of a host, and those of a guest, which have CPUs.
func randomTopology(rng *rand.Rand) (host numa.Topology, guest []int) {
	for id := range 2 + rng.IntN(3) {
		n := numa.Node{ID: id, CPUs: id == 0 || rng.IntN(3) > 0, Socket: rng.IntN(3)}
		if rng.IntN(12) == 0 {
			n.Socket = numa.NoSocket
		}
		host = append(host, n)
		if n.CPUs && (len(guest) == 0 || rng.IntN(3) == 0) {
			guest = append(guest, id)
		}
	}
	if len(guest) > 1 {
		guest = guest[rng.IntN(2):]
	}
	for i := range host {
		if rng.IntN(6) == 0 {
			continue
		}
		host[i].Distances = map[int]int{}
		for j := range host {
			if host[i].Distances[j] = 20 + 10*rng.IntN(2); i == j {
				host[i].Distances[j] = 10
			}
		}
	}
	return host, guest
}

// rankByDefinition is Rank by the sentences of docs/behaviour/nova-pci.md 3.7.
func rankByDefinition(policy pci.NUMAPolicy, device int, guest []int, host numa.Topology) int {
	near := map[int]bool{} // the nearest nodes with CPUs
	for _, n := range host {
		if n.ID == device && n.CPUs {
			near[n.ID] = true
		}
		for _, a := range host {
			nearest := n.ID == device && !n.CPUs && a.CPUs && n.Distances != nil
			for _, b := range host {
				nearest = nearest && (!b.CPUs || n.Distances[a.ID] <= n.Distances[b.ID])
			}
			if nearest {
				near[a.ID] = true
			}
		}
	}
	local, sameSocket, known := false, false, true
	for _, n := range host {
		known = known && (!n.CPUs || n.Socket >= 0)
		for _, g := range guest {
			local = local || near[g]
			sameSocket = sameSocket || near[n.ID] && host[g].Socket == n.Socket
		}
	}
	switch {
	case local:
		return numa.Local
	case policy == pci.Socket && sameSocket && known:
		return numa.Fair
	case len(near) == 0 && (policy == pci.Legacy || policy == pci.Preferred):
		return numa.Fair
	case policy == pci.Preferred:
		return numa.Distant
	}
	return -1
}

func TestDescribeNamesTheNearestNodes(t *testing.T) {
	host := numa.Topology{{ID: 0, CPUs: true}, {ID: 1, CPUs: true}, {ID: 2, Distances: map[int]int{0: 40, 1: 40, 2: 10}},
		{ID: 3, Distances: map[int]int{0: 80, 1: 120}}, {ID: 4}}
	for device, want := range map[int]string{
		pci.NoNUMA: "no known node",
		1:          "node 1",
		2:          "node 2 without CPUs (nearest nodes with CPUs: 0 and 1, distance 40)",
		3:          "node 3 without CPUs (nearest node with CPUs: 0, distance 80)",
		4:          "node 4 without CPUs (its distance from nodes with CPUs is unknown)",
	} {
		if got := host.Describe(device); got != want {
			t.Errorf("%d: %s, want %s", device, got, want)
		}
	}
}
