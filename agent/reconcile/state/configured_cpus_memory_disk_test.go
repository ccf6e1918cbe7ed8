package state

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/numa"
)

func TestRootInventory(t *testing.T) {
	machine := facts.Facts{Nodes: []facts.Node{{ID: 0, CPUs: []int{0, 1, 2, 3}, Socket: -1, MemoryMB: 1000},
		{ID: 1, CPUs: []int{4, 5}, Socket: 0, MemoryMB: 1000}}}
	n := func(i int) *int { return &i }
	for name, c := range map[string]struct {
		cpus       CPUs
		vcpu, pcpu survey.RootInventory
		memory     survey.RootInventory
	}{
		"without options": {CPUs{}, survey.RootInventory{Total: 64}, survey.RootInventory{},
			survey.RootInventory{Total: 2000}},
		"shared alone": {CPUs{Shared: []int{1, 2, 99}}, survey.RootInventory{Total: 2}, survey.RootInventory{},
			survey.RootInventory{Total: 2000}},
		"dedicated alone": {CPUs{Dedicated: []int{1, 2}}, survey.RootInventory{}, survey.RootInventory{Total: 2},
			survey.RootInventory{Total: 2000}},
		"both, ratios and reserve": {CPUs{Shared: []int{0}, Dedicated: []int{1}, CPURatio: 4, MemoryRatio: 1.5,
			ReservedMB: n(1500), ReservedCPUs: n(9)},
			survey.RootInventory{Total: 1, Reserved: 1, ReservedSet: true, Ratio: 4}, survey.RootInventory{Total: 1},
			survey.RootInventory{Total: 2000, Reserved: 1500, ReservedSet: true, Ratio: 1.5}},
	} {
		var f survey.Facts
		c.cpus.FillFacts(&f, machine, hypervisor.Capacity{VCPUs: 64, MemoryMB: 2000, DiskGB: 10})
		if f.VCPU != c.vcpu || f.PCPU != c.pcpu || f.MemoryMB != c.memory || len(f.Traits) > 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	cells := CPUs{ReservedMB: n(1500)}.Cells(machine)
	if cells[0].MemoryMB != 0 || cells[1].MemoryMB != 500 || cells[0].Socket != numa.NoSocket {
		t.Errorf("%+v", cells)
	}
}

// Configured CPUs and memory that the host does not have cause warnings; those that it has cause none.
func TestCPUWarnings(t *testing.T) {
	machine := facts.Facts{Nodes: []facts.Node{{ID: 0, CPUs: []int{0, 1, 2, 3}}}}
	n := func(i int) *int { return &i }
	for _, c := range []struct {
		cpus CPUs
		want []string
	}{
		{CPUs{}, nil},
		{CPUs{Shared: []int{0, 1}, Dedicated: []int{2}, ReservedCPUs: n(1), ReservedMB: n(100), ReservedGB: n(0)}, nil},
		{CPUs{Shared: []int{3, 4, 5}}, []string{"cpu_shared_set names 3 CPUs, of which this host lacks 2"}},
		{CPUs{Shared: []int{0}, Dedicated: []int{9}},
			[]string{"cpu_dedicated_set names 1 CPUs, of which this host lacks 1"}},
		{CPUs{Shared: []int{0, 1}, ReservedCPUs: n(2), ReservedMB: n(2000), ReservedGB: n(11)},
			[]string{"reserved_host_cpus reserves all", "reserved_host_memory_mb reserves all",
				"reserved_host_disk_mb reserves all"}},
	} {
		got := c.cpus.Warnings(machine, hypervisor.Capacity{VCPUs: 64, MemoryMB: 2000, DiskGB: 10})
		if len(got) != len(c.want) {
			t.Errorf("%+v: %q", c.cpus, got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%+v: %q, want %q", c.cpus, got[i], want)
			}
		}
	}
}

// A node that has only memory, such as that of a GPU, has no socket. The root has the trait for the policy socket all
// the same, because the sockets of all nodes with CPUs are known.
func TestSocketAffinityOfNodesWithoutCPUs(t *testing.T) {
	first := facts.Node{ID: 0, CPUs: []int{0}, Socket: 0}
	for name, c := range map[string]struct {
		nodes []facts.Node
		want  bool
	}{
		"all have CPUs":     {[]facts.Node{first, {ID: 1, CPUs: []int{1}, Socket: 1}}, true},
		"one has memory":    {[]facts.Node{first, {ID: 1, Socket: facts.NoSocket, MemoryMB: 8}}, true},
		"one has no socket": {[]facts.Node{first, {ID: 1, CPUs: []int{1}, Socket: facts.NoSocket}}, false},
		"no nodes":          {nil, false},
	} {
		var f survey.Facts
		CPUs{}.FillFacts(&f, facts.Facts{Nodes: c.nodes}, hypervisor.Capacity{})
		if got := slices.Contains(f.Traits, socketAffinity); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
