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

// twoNodes is bus81 with two NUMA nodes of four CPUs: 81:00.0 lies on node 0, 81:01.0 on node 1.
func twoNodes(t *testing.T) string {
	t.Helper()
	path := bus81(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const at = "-- devices/pci0000:80/0000:81:01.0/numa_node --\n"
	machine := strings.Replace(string(text), at+"0\n", at+"1\n", 1)
	if machine == string(text) {
		t.Fatal("81:01.0 is not where it was")
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

// node is the NUMA node on which the guest of a server lies, as the hypervisor of its host has it.
func (f *fleet) node(s compute.Server) int {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.path(*s.Host), "agent", "guests", s.ID+".json"))
	var guest struct{ Parts []struct{ Node int } }
	if err == nil {
		err = json.Unmarshal(data, &guest)
	}
	if err != nil || len(guest.Parts) != 1 {
		f.t.Fatalf("%+v %v", guest, err)
	}
	return guest.Parts[0].Node
}

// near is a flavor with one NUMA cell whose device must be on its node, because the flavor says so; the alias does not.
func (f *fleet) near(alias string) string {
	f.t.Helper()
	flavor := f.flavor(alias)
	err := f.compute.compute().SetExtraSpecs(f.t.Context(), flavor, map[string]string{"hw:numa_nodes": "1",
		"hw:pci_numa_affinity_policy": "required"})
	if err != nil {
		f.t.Fatal(err)
	}
	return flavor
}

// M3, and S28 without its port: at the destination of a resize and of a live migration the policy of the flavor decides
// which device can be had, the guest lies on another NUMA node than before, and Placement has the device of that node.
func TestMovesToAnotherNodeM3S28(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	const movable = `alias = {"name": "moves", "vendor_id": "8086", "product_id": "1533", "live_migratable": "true"}` +
		"\n"
	f, machine := newFleet(t, aliases+movable+asking+"[DEFAULT]\nallow_resize_to_same_host = false\n"), twoNodes(t)
	start := func(host, cpus string) {
		conf := strings.Replace(spec, `"1533"`, `"1533", "live_migratable": true`, 1) + reporting +
			"[compute]\ncpu_shared_set = " + cpus + "\n"
		f.startAgent(host, f.host(host, machine, conf))
	}
	start("cmp1", "0-3") // guests of cmp1 lie on node 0, those of cmp2 on node 1
	grown := f.on("cmp1", f.server("grown", "a-vf:1"))
	f.near("moves:1")
	moved := f.on("cmp1", f.server("moved", "moves:1"))
	f.holds(moved, "cmp1_0000:81:00.0 CUSTOM_PCI_8086_1533:1")
	if n := f.node(moved); n != 0 {
		t.Errorf("on node %d", n)
	}
	start("cmp2", "4-7")
	const there = "cmp2_0000:81:01.0 CUSTOM_PCI_8086_1533:1"

	moved = f.on("cmp2", f.act(moved, "ACTIVE", "os-migrateLive", map[string]any{"host": nil, "block_migration": "auto"}))
	f.holds(moved, there)
	if n := f.node(moved); n != 1 {
		t.Errorf("on node %d", n)
	}
	f.delete(moved)

	f.near("a-pci-dev:1")
	grown = f.arrived("cmp2", f.resize(grown, "a-pci-dev:1"))
	f.holds(grown, there)
	if n := f.node(grown); n != 1 {
		t.Errorf("on node %d", n)
	}
	grown = f.on("cmp2", f.act(grown, "ACTIVE", "confirmResize", nil))
	f.holds(grown, there)
	f.idle("cmp1")
	f.delete(grown)
}
