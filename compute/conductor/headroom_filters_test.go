package conductor

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// headroomFlavors are flavors whose servers are limited by what Placement does not count: NUMA nodes, dedicated CPUs of
// a node, and devices near them.
var headroomFlavors = []map[string]string{
	{"hw:numa_nodes": "2"},
	{"hw:numa_nodes": "1"},
	{"hw:cpu_policy": "dedicated"},
	{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"},
	{"pci_passthrough:alias": "nic:1", "hw:cpu_policy": "dedicated"},
	{"pci_passthrough:alias": "nic:2"},
	{"pci_passthrough:alias": "nic:9"},
}

// randomCells gives a host one or two NUMA nodes of different sizes, and puts its devices on them.
func (c *cloud) randomCells(rng *rand.Rand) {
	c.describe(func(h *schedule.Host) {
		next, dedicated := 0, 0
		h.Cells = nil
		for node := range 1 + rng.IntN(2) {
			cell := numa.Cell{ID: node, Socket: node, MemoryMB: 256 * (1 + rng.IntN(4))}
			for range 1 + rng.IntN(4) {
				cell.CPUs = append(cell.CPUs, next)
				next++
			}
			for range rng.IntN(5) {
				cell.Dedicated = append(cell.Dedicated, next)
				next, dedicated = next+1, dedicated+1
			}
			h.Cells = append(h.Cells, cell)
		}
		node := rng.IntN(len(h.Cells)) // the devices of one provider are on one node
		for i := range h.Devices {
			h.Devices[i].NUMANode = node
		}
		inventories := map[resource.Class]resource.Inventory{"VCPU": resource.Whole(next - dedicated),
			"MEMORY_MB": resource.Whole(2048)}
		if dedicated > 0 {
			inventories["PCPU"] = resource.Whole(dedicated)
		}
		c.placement.SetProvider(provider.Provider{ID: "root-" + provider.ID(h.Name), Name: h.Name,
			Inventories: inventories})
	})
}

// As many servers can be created as the headroom says, and one more fails, also where the filters decide.
func TestHeadroomIsWhatTheSchedulerAccepts(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 1))
	placed, exact := 0, 0
	for n := range 28 {
		c := newCloud(t, map[string]int{"a": 1 + rng.IntN(3), "b": 1 + rng.IntN(3)})
		c.start(t.Context(), c.store, c.client(nil))
		c.randomCells(rng)
		f := flavor.Flavor{Name: "f", VCPUs: 2, MemoryMB: 128, ExtraSpecs: headroomFlavors[n%len(headroomFlavors)]}
		hosts, reason, err := c.conductor().Scheduler.Headroom(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		says, certain := 0, true
		for _, h := range hosts {
			says, certain = says+h.Fits, certain && h.Exact
		}
		active := 0
		for i := range says + 1 {
			id := fmt.Sprintf("s%d", i)
			if _, err := c.conductor().Create(t.Context(), lifecycle.Server{ID: id, Name: id, Project: "p", User: "u",
				Flavor: f}); err != nil {
				t.Fatal(err)
			}
			c.waitSettled()
		}
		active = c.count(lifecycle.Active)
		if active < says || certain && active != says {
			t.Errorf("case %d, %v: the headroom is %d (exact %v; %+v; %s), %d servers are ACTIVE\n%s", n, f.ExtraSpecs, says,
				certain, hosts, reason, active, c.histories())
		}
		placed += active
		if certain {
			exact++
		}
	}
	if placed < 20 || exact < 20 {
		t.Errorf("only %d servers were placed, and %d counts were exact", placed, exact)
	}
}
