package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// machineWithTwoNodes is bus81 with two NUMA nodes of four CPUs: 81:00.0 is on node 0, 81:01.0 on node 1.
func machineWithTwoNodes(t *testing.T) string {
	t.Helper()
	path := bus81(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const at = "-- devices/pci0000:80/0000:81:01.0/numa_node --\n"
	machine := strings.Replace(string(text), at+"0\n", at+"1\n", 1)
	if machine == string(text) {
		t.Fatal("bus81 has no NUMA node 0 for 81:01.0")
	}
	for node, cpus := range []string{"0-3", "4-7"} {
		machine += fmt.Sprintf("-- devices/system/node/node%[1]d/cpulist --\n%[2]s\n-- "+
			"devices/system/node/node%[1]d/meminfo --\nNode %[1]d MemTotal: 4194304 kB\n", node, cpus)
		for cpu := range 4 {
			machine += fmt.Sprintf("-- devices/system/cpu/cpu%d/topology/physical_package_id --\n%d\n", 4*node+cpu, node)
		}
	}
	if err := os.WriteFile(path, []byte(machine), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// guestNode returns the NUMA node of a server's guest, from the hypervisor of its host.
func (f *fleet) guestNode(s compute.Server) int {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.path(*s.Host), "agent", "guests", s.ID+".json"))
	var guest struct{ Cells []struct{ Node int } }
	if err == nil {
		err = json.Unmarshal(data, &guest)
	}
	if err != nil || len(guest.Cells) != 1 {
		f.t.Fatalf("%+v %v", guest, err)
	}
	return guest.Cells[0].Node
}

// numaFlavor returns a flavor with one NUMA cell that requires its device on the same NUMA node. The policy is in the
// flavor, not in the alias.
func (f *fleet) numaFlavor(alias string) string {
	f.t.Helper()
	flavor := f.flavor(alias)
	err := f.compute.compute().SetExtraSpecs(f.t.Context(), flavor, map[string]string{"hw:numa_nodes": "1",
		"hw:pci_numa_affinity_policy": "required"})
	if err != nil {
		f.t.Fatal(err)
	}
	return flavor
}

// At the destination of a resize and of a live migration, the NUMA policy of the flavor selects the device: the guest
// is on another NUMA node than before, and Placement has the device of that node.
func TestMovesToAnotherNUMANode(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	const movable = `alias = {"name": "moves", "vendor_id": "8086", "product_id": "1533", "live_migratable": "true"}` +
		"\n"
	f, machine := newFleet(t,
		aliases+movable+pciInPlacement+"[DEFAULT]\nallow_resize_to_same_host = false\n"), machineWithTwoNodes(t)
	start := func(host, cpus string) {
		conf := strings.Replace(deviceSpecs, `"1533"`, `"1533", "live_migratable": true`, 1) + reportInPlacement +
			"[compute]\ncpu_shared_set = " + cpus + "\n"
		f.startAgent(host, f.host(host, machine, conf))
	}
	start("cmp1", "0-3") // guests of cmp1 are on node 0, those of cmp2 on node 1
	grown := f.wantActiveOn("cmp1", f.server("grown", "a-vf:1"))
	f.numaFlavor("moves:1")
	moved := f.wantActiveOn("cmp1", f.server("moved", "moves:1"))
	f.waitForAllocation(moved, "cmp1_0000:81:00.0 CUSTOM_PCI_8086_1533:1")
	if n := f.guestNode(moved); n != 0 {
		t.Errorf("the guest is on node %d", n)
	}
	start("cmp2", "4-7")
	const there = "cmp2_0000:81:01.0 CUSTOM_PCI_8086_1533:1"

	moved = f.wantActiveOn("cmp2", f.act(moved, "ACTIVE", "os-migrateLive", map[string]any{"host": nil,
		"block_migration": "auto"}))
	f.waitForAllocation(moved, there)
	if n := f.guestNode(moved); n != 1 {
		t.Errorf("the guest is on node %d", n)
	}
	f.delete(moved)

	f.numaFlavor("a-pci-dev:1")
	grown = f.wantResized("cmp2", f.resize(grown, "a-pci-dev:1"))
	f.waitForAllocation(grown, there)
	if n := f.guestNode(grown); n != 1 {
		t.Errorf("the guest is on node %d", n)
	}
	grown = f.wantActiveOn("cmp2", f.act(grown, "ACTIVE", "confirmResize", nil))
	f.waitForAllocation(grown, there)
	f.waitUntilIdle("cmp1")
	f.delete(grown)
}
