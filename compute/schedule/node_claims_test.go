package schedule_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// nodesHost returns a host with two nodes of 4 threads for dedicated CPUs and 1 GiB of memory, and Placement's amounts
// of the root and of the providers of the nodes.
func nodesHost() (schedule.Host, schedule.Tree) {
	h := host("h1")
	h.Cells = []numa.Cell{{ID: 0, Socket: numa.NoSocket, Dedicated: []int{0, 1, 2, 3}, MemoryMB: 1024},
		{ID: 1, Socket: numa.NoSocket, Dedicated: []int{4, 5, 6, 7}, MemoryMB: 1024}}
	h.NodesInPlacement = true
	tree := schedule.Tree{Free: resource.Allocation{h.Provider: {"MEMORY_MB": 2048}},
		Traits: map[provider.ID][]resource.Trait{}}
	for _, c := range h.Cells {
		amounts := resource.Amounts{}
		for class, inv := range c.Inventories(h.Limits) {
			amounts[class] = inv.Total
		}
		tree.Free[h.NodeProvider(c.ID)] = amounts
	}
	return h, tree
}

// planOnNodes plans a guest of two dedicated CPUs for each cell on the host.
func planOnNodes(h schedule.Host, tree schedule.Tree, cells int) (schedule.Choice, schedule.Host, schedule.Refusal) {
	var guest []numa.GuestCell
	for i := range cells {
		guest = append(guest, numa.GuestCell{VCPUs: []int{2 * i, 2*i + 1}, Dedicated: []int{2 * i, 2*i + 1}, MemoryMB: 256})
	}
	in := schedule.Input{Hosts: map[provider.ID]schedule.Host{h.Provider: h}, Cells: guest,
		Candidates: []schedule.Candidate{{Root: h.Provider,
			Allocation: resource.Allocation{h.Provider: {"MEMORY_MB": 256 * cells}}}}}
	return schedule.PlanOn(in, h.Provider, nil, tree)
}

// A claim has what each cell uses of its node, until Placement has no more of a node.
func TestCellsAreClaimedOnTheirNodes(t *testing.T) {
	h, tree := nodesHost()
	for n := range 2 { // each node has room for two cells
		choice, after, refusal := planOnNodes(h, tree, 2)
		if refusal.Reason != "" {
			t.Fatal(n, refusal)
		}
		want := resource.Allocation{h.Provider: {"MEMORY_MB": 512},
			h.NodeProvider(0): {"PCPU": 2, "CUSTOM_NUMA_MEMORY_MB": 256},
			h.NodeProvider(1): {"PCPU": 2, "CUSTOM_NUMA_MEMORY_MB": 256}}
		if !choice.Allocation.Equal(want) {
			t.Fatalf("got %v, want %v", choice.Allocation, want)
		}
		h = after
		for id, amounts := range choice.Allocation {
			for class, n := range amounts {
				tree.Free[id][class] -= n
			}
		}
	}
	if _, _, refusal := planOnNodes(h, tree, 1); !strings.Contains(refusal.Reason, "2 threads for dedicated CPUs") {
		t.Error(refusal)
	}
}

// A consumer that compute does not know has used up a node in Placement.
func TestPlansKeepOffNodesThatPlacementHasFull(t *testing.T) {
	for class, used := range map[resource.Class]int{"PCPU": 3, "CUSTOM_NUMA_MEMORY_MB": 900} {
		h, tree := nodesHost()
		tree.Free[h.NodeProvider(0)][class] -= used
		choice, _, refusal := planOnNodes(h, tree, 1)
		if refusal.Reason != "" || len(choice.Cells) != 1 || choice.Cells[0].Node != 1 {
			t.Errorf("%s: %v, %v", class, choice, refusal)
		}
		if _, _, refusal := planOnNodes(h, tree, 2); refusal.Reason == "" {
			t.Errorf("%s: two cells fit on one node", class)
		}
	}
}

// The request for the rest of a server leaves the dedicated CPUs out, and no group becomes empty.
func TestWithoutDedicated(t *testing.T) {
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"PCPU": 4, "MEMORY_MB": 1}},
		{Suffix: "1", Resources: resource.Amounts{"PCPU": 4}}, {Suffix: "2", Resources: resource.Amounts{"CUSTOM_X": 1}}}}
	got := schedule.WithoutDedicated(ask)
	for i, want := range []resource.Amounts{{"MEMORY_MB": 1}, {"PCPU": 1}, {"CUSTOM_X": 1}} {
		if !maps.Equal(got.Groups[i].Resources, want) {
			t.Errorf("group %d: %v, want %v", i, got.Groups[i].Resources, want)
		}
	}
	if ask.Groups[0].Resources["PCPU"] != 4 {
		t.Error("the request itself has changed")
	}
}

// A claim is expected in the form that its host has now.
func TestClaimsFollowTheFormOfTheirHost(t *testing.T) {
	h, _ := nodesHost()
	cells := []numa.GuestCell{{VCPUs: []int{0, 1}, Dedicated: []int{0}, MemoryMB: 64}}
	placed := []numa.Placed{{Node: 1, PageKB: 2048}}
	onRoot := resource.Allocation{h.Provider: {"VCPU": 1, "PCPU": 1}, "gpu": {"CUSTOM_GPU": 1}}
	onNodes := resource.Allocation{h.Provider: {"VCPU": 1}, "gpu": {"CUSTOM_GPU": 1},
		h.NodeProvider(1): {"PCPU": 1, "CUSTOM_NUMA_VCPU": 1, "CUSTOM_MEMORY_PAGES_2048": 32}}
	without := resource.Allocation{h.Provider: {"VCPU": 1}, "gpu": {"CUSTOM_GPU": 1}}
	for name, test := range map[string]struct {
		claim, want resource.Allocation
		inPlacement bool
		cells       []numa.GuestCell
		placed      []numa.Placed
	}{
		"on the root, and it stays there":            {onRoot, onRoot, false, cells, placed},
		"on nodes, and it stays there":               {onNodes, onNodes, true, cells, placed},
		"on nodes, not reported yet":                 {onNodes, onNodes, true, cells, nil},
		"moved to nodes":                             {onRoot, onNodes, true, cells, placed},
		"moved to nodes, not reported yet":           {onRoot, without, true, cells, nil},
		"moved to the root":                          {onNodes, onRoot, false, cells, placed},
		"moved to the root, and not reported before": {onNodes, onRoot, false, cells, nil},
		"without cells":                              {onRoot, onRoot, true, nil, nil},
	} {
		h.NodesInPlacement = test.inPlacement
		if got := h.InForm(test.claim, h.Provider, test.cells, test.placed); !got.Equal(test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
