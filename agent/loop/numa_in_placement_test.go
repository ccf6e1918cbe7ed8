package loop

import (
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	node0 = "cmp1_NUMA0"
	node1 = "cmp1_NUMA1"
)

// numaHost gives the host two nodes, each with two threads for dedicated CPUs and two for shared ones.
func (w *testHost) numaHost() {
	w.numaNodes()
	w.options.CPUs = state.CPUs{Shared: []int{0, 4, 2, 6}, Dedicated: []int{1, 5, 3, 7}, CPURatio: 4}
}

// pinnedServer assigns a server with two dedicated CPUs, which has its claim on the root or on a node.
func (w *testHost) pinnedServer(id string, claim resource.Allocation) host.Server {
	s := w.server(id)
	s.Topology = pinnedCells(2, 512)
	w.placement.SetAllocation(resource.ConsumerID(id), claim)
	return s
}

// rootClaim is the claim of a server with two dedicated CPUs while PCPU is on the root.
func (w *testHost) rootClaim() resource.Allocation {
	return resource.Allocation{w.provider("cmp1").ID: {"PCPU": 2, "MEMORY_MB": 512, "DISK_GB": 1}}
}

// untilNodes waits until a report says whether nodes are in Placement.
func (w *testHost) untilNodes(in bool) {
	w.t.Helper()
	w.until("the report has the form", func() bool { return w.compute.lastReport().NodesInPlacement == in })
}

func TestNUMAInPlacement(t *testing.T) {
	scenario(t, "a new host", func(t *testing.T, w *testHost) {
		w.numaHost()
		w.options.CPUs.InPlacement = true
		_, stop := w.startReported()
		w.untilNodes(true)
		root, p := w.provider("cmp1"), w.provider(node1)
		if _, has := root.Inventories["PCPU"]; has || root.Inventories["VCPU"].Total != 4 {
			t.Errorf("the root has %+v", root.Inventories)
		}
		if p.ID != provider.IDFromName(root.ID, node1) || p.Parent != root.ID || !p.HasTrait(numa.NodeTrait) ||
			p.Inventories["PCPU"] != resource.Whole(2) || p.Inventories["CUSTOM_MEMORY_PAGES_2048"] != resource.Whole(512) ||
			p.Inventories["CUSTOM_NUMA_VCPU"].AllocationRatio != 4 || p.Inventories["CUSTOM_NUMA_VCPU"].MaxUnit != 2 ||
			p.Inventories["CUSTOM_NUMA_MEMORY_MB"].Total != w.compute.lastReport().Cells[1].MemoryMB-1024 {
			t.Errorf("%+v, cells %+v", p, w.compute.lastReport().Cells)
		}
		writes := w.writes()
		must(t, stop())
		_, stop = w.startReported()
		must(t, stop())
		if w.writes() != writes {
			t.Errorf("a restart wrote %d times", w.writes()-writes)
		}
	})
	scenario(t, "a host with guests, there and back", func(t *testing.T, w *testHost) {
		w.numaHost()
		_, stop := w.startReported()
		s1, s2 := w.pinnedServer("s1", w.rootClaim()), w.server("s2")
		s2.Topology = []host.GuestCell{{VCPUs: []int{0}, MemoryMB: 1024, PageKB: 2048}} // huge pages are on node 1 alone
		w.placement.SetAllocation("s2", resource.Allocation{rootID: {"VCPU": 1, "MEMORY_MB": 1024}})
		w.compute.assign(s1, s2)
		w.untilPhase(host.Running, "s1", "s2")
		before, was := w.placement.all(), w.guest("s1").Cells[0]
		must(t, stop())
		w.options.CPUs.InPlacement = true
		_, stop = w.startReported()
		w.untilNodes(true)
		on := map[int]string{0: node0, 1: node1}[was.Node]
		for _, c := range []struct {
			consumer, provider string
			class              resource.Class
			want               int
		}{{"s1", on, "PCPU", 2}, {"s1", on, "CUSTOM_NUMA_MEMORY_MB", 512}, {"s1", "cmp1", "PCPU", 0},
			{"s1", "cmp1", "MEMORY_MB", 512}, {"s1", "cmp1", "DISK_GB", 1}, {"s2", "cmp1", "VCPU", 1},
			{"s2", node1, "CUSTOM_NUMA_VCPU", 1}, {"s2", node1, "CUSTOM_MEMORY_PAGES_2048", 512}} {
			if got := w.allocated(c.consumer, c.provider, c.class); got != c.want {
				t.Errorf("%s has %d %s of %s, want %d", c.consumer, got, c.class, c.provider, c.want)
			}
		}
		if is := w.guest("s1").Cells[0]; is.Node != was.Node || len(is.CPUs) != 2 {
			t.Errorf("the guest is on %+v, before on %+v", is, was)
		}
		must(t, stop())
		w.options.CPUs.InPlacement = false
		_, stop = w.startReported()
		w.until("the nodes are gone", func() bool { return w.provider(node0).ID == "" && w.provider(node1).ID == "" })
		w.untilNodes(false)
		for id, want := range before {
			if got := w.placement.all()[id]; !got.Equal(want) {
				t.Errorf("%s has %v, at first %v", id, got, want)
			}
		}
		if w.total("cmp1", "PCPU") != 4 {
			t.Errorf("%+v", w.provider("cmp1"))
		}
		must(t, stop())
	})
	scenario(t, "a claim that is not in the journal delays the switch", func(t *testing.T, w *testHost) {
		w.numaHost()
		_, stop := w.startReported()
		late := w.pinnedServer("s1", w.rootClaim())
		must(t, stop())
		w.options.CPUs.InPlacement = true
		_, stop = w.startReported()
		w.until("a condition names it", func() bool { return w.compute.conditions() != "" })
		contains(t, w.compute.conditions(), "not moved in Placement yet: s1 has 2 PCPU of cmp1")
		if w.total("cmp1", "PCPU") != 4 || w.total(node0, "PCPU") != 0 || w.compute.lastReport().NodesInPlacement {
			t.Errorf("the threads are offered as %+v and %+v", w.provider("cmp1"), w.provider(node0))
		}
		w.compute.assign(late)
		w.untilPhase(host.Running, "s1")
		w.untilNodes(true)
		if w.allocated("s1", "cmp1", "PCPU") != 0 || w.allocated("s1", node0, "PCPU")+w.allocated("s1", node1, "PCPU") != 2 {
			t.Errorf("%v", w.placement.all())
		}
		w.until("the condition is gone", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
	})
	scenario(t, "another client writes while it is switched", func(t *testing.T, w *testHost) {
		w.numaHost()
		_, stop := w.startReported()
		w.compute.assign(w.pinnedServer("s1", w.rootClaim()))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.options.CPUs.InPlacement = true
		refused := 0
		w.placement.fail = func(call string) error {
			if call == "Reshape" && refused < 3 {
				refused++
				return fault.New(fault.Conflict, "the consumer has changed")
			}
			return nil
		}
		_, stop = w.startReported()
		w.untilNodes(true)
		if refused != 3 || w.allocated("s1", "cmp1", "PCPU") != 0 {
			t.Errorf("%d reshapes refused; %v", refused, w.placement.all())
		}
		must(t, stop())
	})
	scenario(t, "an allocation that lacks what its guest uses of nodes gets it", func(t *testing.T, w *testHost) {
		w.numaHost()
		w.options.CPUs.InPlacement = true
		_, stop := w.startReported()
		w.untilNodes(true)
		s := w.pinnedServer("s1", resource.Allocation{rootID: {"MEMORY_MB": 512}})
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		w.until("it has them", func() bool {
			return w.allocated("s1", node0, "PCPU")+w.allocated("s1", node1, "PCPU") == 2
		})
		must(t, stop())
	})
}
