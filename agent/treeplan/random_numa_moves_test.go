package treeplan

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/resource"
)

// TestRandomMovesKeepWhatGuestsHave switches between the root and the providers of nodes at random moments, while
// guests come and go, some in the form of before the switch, and the host loses and gets CPUs. Each plan passes Check
// and fits, and no consumer loses or gets a dedicated CPU. In the end, with all guests in the journal, the tree has the
// wanted form, and each guest has exactly what it uses of its nodes.
func TestRandomMovesKeepWhatGuestsHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{tree: tree(stock("VCPU", 8, "MEMORY_MB", 1024, "PCPU", 12)),
			all: map[resource.ConsumerID]resource.Allocation{}}
		guests := map[resource.ConsumerID]Expected{}
		onNodes, threads, next := false, 6, 0
		aim := func() Aim {
			desired := tree(stock("VCPU", 8, "MEMORY_MB", 1024, "PCPU", 2*threads))
			if onNodes {
				i := stock("PCPU", threads, "CUSTOM_NUMA_VCPU", 4, "CUSTOM_NUMA_MEMORY_MB", 512)
				desired = tree(stock("VCPU", 8, "MEMORY_MB", 1024), numaNode(0, i), numaNode(1, i))
			}
			return Aim{Tree: desired, Expected: maps.Clone(guests)}
		}
		for range rapid.IntRange(1, 25).Draw(t, "operations") {
			switch rapid.SampledFrom([]string{"claim", "claim", "build", "delete", "switch", "threads", "plan"}).Draw(t, "op") {
			case "claim":
				next++
				id := resource.ConsumerID(fmt.Sprint("s", next))
				w.claim(id, anyNodes(t))
			case "build":
				w.build(t, guests, 1)
			case "delete":
				if len(w.all) > 0 {
					id := rapid.SampledFrom(slices.Sorted(maps.Keys(w.all))).Draw(t, "deleted")
					delete(w.all, id)
					delete(guests, id)
				}
			case "switch":
				onNodes = !onNodes
			case "threads":
				threads = rapid.IntRange(1, 6).Draw(t, "threads")
			case "plan":
				w.planKeeping(t, aim())
			}
		}
		w.build(t, guests, len(w.all))
		for range 4 {
			w.planKeeping(t, aim())
		}
		if OnNodes(w.tree) != onNodes {
			t.Fatalf("on nodes %t, want %t: %+v", OnNodes(w.tree), onNodes, w.tree)
		}
		for id, guest := range guests {
			for node, amounts := range guest.Nodes {
				if onNodes && w.all[id][node].String() != amounts.String() {
					t.Fatalf("%s has %s of %s, its guest %s", id, w.all[id][node], node, amounts)
				}
			}
		}
	})
}

// anyNodes returns what the cells of a random guest use.
func anyNodes(t *rapid.T) resource.Allocation {
	out := resource.Allocation{}
	for n := range 2 {
		if use := (resource.Amounts{"PCPU": rapid.IntRange(0, 2).Draw(t, "dedicated"),
			"CUSTOM_NUMA_VCPU": rapid.IntRange(0, 1).Draw(t, "shared")}).Positive(); len(use) > 0 {
			use["CUSTOM_NUMA_MEMORY_MB"] = 16
			out[nodeID(n)] = use
		}
	}
	return out
}

// claim claims a guest in the form that the tree has. What Placement would refuse is not claimed.
func (w *world) claim(id resource.ConsumerID, nodes resource.Allocation) {
	root := resource.Amounts{"MEMORY_MB": 32, "PCPU": nodes.Sum()["PCPU"], "VCPU": nodes.Sum()["CUSTOM_NUMA_VCPU"]}
	next := resource.Allocation{}
	if OnNodes(w.tree) {
		root["PCPU"] = 0
		next = nodes
	}
	next = next.Add(resource.Allocation{"H": root.Positive()})
	for at, amounts := range next {
		p, _ := w.tree.ByID(at)
		for class, n := range amounts {
			used := 0
			for _, by := range usesOf(w.all)[at] {
				used += by[class]
			}
			if class != "MEMORY_MB" && class != "VCPU" && !p.Inventories[class].Fits(used, n) {
				return
			}
		}
	}
	w.all[id] = next
}

// build builds up to n guests of consumers that have none.
func (w *world) build(t *rapid.T, guests map[resource.ConsumerID]Expected, n int) {
	for _, id := range slices.Sorted(maps.Keys(w.all)) {
		if _, built := guests[id]; !built && n > 0 {
			guests[id] = Expected{Nodes: w.nodesOf(t, id)}
			n--
		}
	}
}

// nodesOf returns what the guest of a consumer uses: the nodes of its claim, or any.
func (w *world) nodesOf(t *rapid.T, id resource.ConsumerID) resource.Allocation {
	out := resource.Allocation{}
	for n := range 2 {
		if use := w.all[id][nodeID(n)]; len(use) > 0 {
			out[nodeID(n)] = maps.Clone(use)
		}
	}
	if root := w.all[id]["H"]; len(out) == 0 {
		use := resource.Amounts{"PCPU": root["PCPU"], "CUSTOM_NUMA_VCPU": root["VCPU"],
			"CUSTOM_NUMA_MEMORY_MB": root["MEMORY_MB"]}
		out[nodeID(rapid.IntRange(0, 1).Draw(t, "node"))] = use.Positive()
	}
	return out
}

// planKeeping executes a plan, and fails if a consumer has another number of dedicated CPUs afterwards, or another
// amount of anything that is not of nodes.
func (w *world) planKeeping(t *rapid.T, aim Aim) {
	before, tree := maps.Clone(w.all), w.tree
	w.plan(t, aim)
	for id, was := range before {
		is := w.all[id]
		if cpus := dedicated(is, w.tree); cpus != dedicated(was, tree) {
			t.Fatalf("%s had %d dedicated CPUs and has %d: %v, before %v", id, dedicated(was, tree), cpus, is, was)
		}
		for class, n := range was["H"] {
			if class != numa.DedicatedCPUs && is["H"][class] != n {
				t.Fatalf("%s had %d %s of the root and has %d", id, n, class, is["H"][class])
			}
		}
	}
}
