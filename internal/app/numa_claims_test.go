package app

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The claim of a server with NUMA cells has what each cell uses of its node, a consumer that only Placement knows keeps
// servers from a node, and headroom counts with both. Switching numa_in_placement moves the claims, and neither form
// lacks anything.
func TestNUMAClaims(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sys = twoNodes(func(m *machine, node int) { m.devices(node, 1, "10de", "2330", "030200") })
	conf := "[compute]\ncpu_dedicated_set = 0-15\n"
	l.up(conf)
	root := l.provider("cmp1").ID
	node := func(n int) provider.ID { return provider.IDFromName(root, numa.ProviderName("cmp1", n)) }
	pinned := map[string]string{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"}
	server := l.bootCPUs("pinned", "ACTIVE", 8, pinned)
	held := l.allocation(server.ID)
	memory := held[root]["MEMORY_MB"] / 2
	onNodes := resource.Allocation{root: {"MEMORY_MB": held[root]["MEMORY_MB"], "DISK_GB": held[root]["DISK_GB"]},
		node(0): {"PCPU": 4, numa.SmallMemory: memory}, node(1): {"PCPU": 4, numa.SmallMemory: memory}}
	if !held.Equal(onNodes) {
		t.Fatalf("the server holds %v, want %v", held, onNodes)
	}

	other := resource.ConsumerID("5eb5e2a5-7e0c-4f06-a0f2-a34ee6c7ea1c")
	client := l.cloud.PlacementClient()
	claim := placement.ConsumerAllocation{Allocation: resource.Allocation{node(0): {"PCPU": 2}}, Project: "p", User: "u",
		ConsumerType: "INSTANCE"}
	if err := client.PutAllocation(t.Context(), other, claim); err != nil {
		t.Fatal(err)
	}
	one := map[string]string{"hw:cpu_policy": "dedicated"}
	for _, cpus := range []int{4, 2} { // node 0 has 2 left, node 1 has 4
		got := l.allocation(l.bootCPUs(fmt.Sprint("fits", cpus), "ACTIVE", cpus, one).ID)
		if got[node(cpus/4)]["PCPU"] != cpus {
			t.Errorf("a server of %d CPUs has %v", cpus, got)
		}
	}
	l.wantError(l.bootCPUs("more", "ERROR", 1, one), "1 threads for dedicated CPUs")
	if n := l.headroom("pinned1", one); n != 0 {
		t.Errorf("headroom says that %d more fit", n)
	}
	if err := client.DeleteAllocation(t.Context(), other); err != nil {
		t.Fatal(err)
	}

	lacksNothing := func() {
		t.Helper()
		audit, err := l.cloud.HostClient().Allocations(t.Context(), "cmp1")
		if err != nil || len(audit.Missing)+len(audit.Foreign) > 0 {
			t.Errorf("%+v, %v", audit, err)
		}
	}
	l.down()
	l.up(conf + "[berth]\nnuma_in_placement = false\n")
	onRoot := resource.Allocation{root: {"MEMORY_MB": 2 * memory, "DISK_GB": held[root]["DISK_GB"], "PCPU": 8}}
	l.until("the claim is on the root", func() bool { return l.allocation(server.ID).Equal(onRoot) })
	lacksNothing()
	l.down()
	l.up(conf)
	l.until("the claim is on the nodes", func() bool { return l.allocation(server.ID).Equal(onNodes) })
	lacksNothing()
	l.down()
}
