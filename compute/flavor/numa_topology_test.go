package flavor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
)

type specs = map[string]string

// formatCells returns cells as text: "[0 1](1) 1024 pages 2048 isolate +1" is CPUs, dedicated ones, memory in MiB, page
// size in KiB, thread policy and emulator threads.
func formatCells(parts []numa.GuestCell) string {
	var list []string
	for _, p := range parts {
		text := fmt.Sprint(p.VCPUs)
		if len(p.Dedicated) > 0 {
			text += fmt.Sprintf("(%s)", strings.Trim(fmt.Sprint(p.Dedicated), "[]"))
		}
		text += fmt.Sprintf(" %d", p.MemoryMB)
		if p.PageKB != 0 {
			text += fmt.Sprintf(" pages %d", p.PageKB)
		}
		if p.Threads != "" {
			text += " " + string(p.Threads)
		}
		if p.Emulator > 0 {
			text += fmt.Sprintf(" +%d", p.Emulator)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// TestTopologyAndAsk checks the NUMA cells and the request to Placement for settings of flavor and image.
func TestTopologyAndAsk(t *testing.T) {
	four := flavor.Flavor{Name: "four", VCPUs: 4, MemoryMB: 4096, DiskGB: 1}
	const plain = "DISK_GB:1,MEMORY_MB:4096,VCPU:4"
	const pinned = "DISK_GB:1,MEMORY_MB:4096,PCPU:4"
	for _, c := range []struct {
		name  string
		specs specs
		image specs
		want  string
		ask   string
	}{
		{"no settings", nil, nil, "", plain},
		{"a PCI alias alone creates no cells", specs{"pci_passthrough:alias": "nic:1",
			"hw:pci_numa_affinity_policy": "required"},
			nil, "", plain},
		{"shared CPUs alone create no cells", specs{"hw:cpu_policy": "shared"}, nil, "", plain},
		{"numa_nodes", specs{"hw:numa_nodes": "2"}, nil, "[0 1] 2048; [2 3] 2048", plain},
		{"numa_nodes of the image", nil, specs{"hw_numa_nodes": "1"}, "[0 1 2 3] 4096", plain},
		{"flavor and image agree", specs{"hw:numa_nodes": "2"}, specs{"hw_numa_nodes": "2"}, "[0 1] 2048; [2 3] 2048", plain},
		{"CPUs and memory of each cell", specs{"hw:numa_nodes": "2", "hw:numa_cpus.0": "0,2-3", "hw:numa_cpus.1": "1",
			"hw:numa_mem.0": "1024", "hw:numa_mem.1": "3072"}, nil,
			"[0 2 3] 1024; [1] 3072", plain},
		{"CPUs and memory of each cell, from the image", specs{"hw:numa_nodes": "2"}, specs{"hw_numa_cpus.0": "0-2",
			"hw_numa_cpus.1": "3",
			"hw_numa_mem.0":  "1024", "hw_numa_mem.1": "3072"},
			"[0 1 2] 1024; [3] 3072", plain},
		{"a page size creates a cell", specs{"hw:mem_page_size": "2048"}, nil, "[0 1 2 3] 4096 pages 2048", plain},
		{"pages with a unit", specs{"hw:mem_page_size": "1GB"}, nil, "[0 1 2 3] 4096 pages 1048576", plain},
		{"small pages", specs{"hw:mem_page_size": "small"}, nil, "[0 1 2 3] 4096 pages -3", plain},
		{"pages of 4 KiB are small", specs{"hw:mem_page_size": "4"}, nil, "[0 1 2 3] 4096 pages -3", plain},
		{"large pages", specs{"hw:mem_page_size": "large"}, nil, "[0 1 2 3] 4096 pages -1", plain},
		{"any pages", specs{"hw:mem_page_size": "any"}, nil, "[0 1 2 3] 4096 pages -2", plain},
		{"any, and the image sets the size", specs{"hw:mem_page_size": "any"}, specs{"hw_mem_page_size": "2MB"},
			"[0 1 2 3] 4096 pages 2048", plain},
		{"large, and the image sets the size", specs{"hw:mem_page_size": "large"}, specs{"hw_mem_page_size": "1048576"},
			"[0 1 2 3] 4096 pages 1048576", plain},
		{"dedicated", specs{"hw:cpu_policy": "dedicated"}, nil, "[0 1 2 3](0 1 2 3) 4096", pinned},
		{"dedicated by the image", nil, specs{"hw_cpu_policy": "dedicated"}, "[0 1 2 3](0 1 2 3) 4096", pinned},
		{"dedicated in the flavor takes precedence", specs{"hw:cpu_policy": "dedicated"}, specs{"hw_cpu_policy": "shared"},
			"[0 1 2 3](0 1 2 3) 4096", pinned},
		{"resources:PCPU", specs{"resources:PCPU": "4", "resources:VCPU": "0"}, nil, "[0 1 2 3](0 1 2 3) 4096", pinned},
		{"resources:PCPU alone", specs{"resources:PCPU": "4"}, nil, "[0 1 2 3](0 1 2 3) 4096", pinned},
		{"mixed", specs{"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0-1", "hw:numa_nodes": "2"}, nil,
			"[0 1] 2048; [2 3](2 3) 2048",
			"DISK_GB:1,MEMORY_MB:4096,PCPU:2,VCPU:2"},
		{"mixed, isolated emulator", specs{"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-3,^2",
			"hw:emulator_threads_policy": "isolate"}, nil,
			"[0 1 2 3](1 3) 4096 +1", "DISK_GB:1,MEMORY_MB:4096,PCPU:3,VCPU:2"},
		{"isolated emulator", specs{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2",
			"hw:emulator_threads_policy": "isolate"}, nil,
			"[0 1](0 1) 2048 +1; [2 3](2 3) 2048", "DISK_GB:1,MEMORY_MB:4096,PCPU:5"},
		{"shared emulator", specs{"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "share"}, nil,
			"[0 1 2 3](0 1 2 3) 4096", pinned},
		{"thread policy require", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}, nil,
			"[0 1 2 3](0 1 2 3) 4096 require", pinned + " +HW_CPU_HYPERTHREADING"},
		{"thread policy isolate", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}, nil,
			"[0 1 2 3](0 1 2 3) 4096 isolate", pinned + " -HW_CPU_HYPERTHREADING"},
		{"thread policy isolate of the image", specs{"hw:cpu_policy": "dedicated"}, specs{"hw_cpu_thread_policy": "isolate"},
			"[0 1 2 3](0 1 2 3) 4096 isolate", pinned + " -HW_CPU_HYPERTHREADING"},
		{"thread policy prefer requires no trait", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"},
			specs{"hw_cpu_thread_policy": "isolate"},
			"[0 1 2 3](0 1 2 3) 4096 prefer", pinned},
		{"traits of the image", nil, specs{"trait:HW_CPU_X86_AVX2": "required", "trait:CUSTOM_GOLD": "required",
			"os_type": "linux"}, "", plain + " +CUSTOM_GOLD +HW_CPU_X86_AVX2"},
		{"socket policy", specs{"hw:pci_numa_affinity_policy": "socket", "pci_passthrough:alias": "nic:1",
			"hw:numa_nodes": "1"},
			nil,
			"[0 1 2 3] 4096", plain + " +COMPUTE_SOCKET_PCI_NUMA_AFFINITY"},
		{"socket policy of the image", specs{"pci_passthrough:alias": "nic:1", "hw:numa_nodes": "1"},
			specs{"hw_pci_numa_affinity_policy": "socket"},
			"[0 1 2 3] 4096", plain + " +COMPUTE_SOCKET_PCI_NUMA_AFFINITY"},
		{"socket policy without cells has no effect", specs{"hw:pci_numa_affinity_policy": "socket",
			"pci_passthrough:alias": "nic:1"}, nil, "", plain},
		{"socket policy without devices has no effect", specs{"hw:pci_numa_affinity_policy": "socket", "hw:numa_nodes": "1"},
			nil,
			"[0 1 2 3] 4096", plain},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := four
			f.ExtraSpecs = c.specs
			image := flavor.Image{Properties: c.image}
			parts, err := flavor.Topology(f, image)
			if got := formatCells(parts); err != nil || got != c.want {
				t.Errorf("got %s %v, want %s", got, err, c.want)
			}
			ask, _, err := flavor.Ask(f, image, aliases(t), flavor.Options{}, countedIDs())
			if got := strings.TrimSpace(format(ask)); err != nil || got != "[] "+c.ask {
				t.Errorf("request %s %v, want %s", got, err, c.ask)
			}
		})
	}
}

func TestTopologyRejectsSettings(t *testing.T) {
	maps := specs{"hw:numa_nodes": "2", "hw:numa_cpus.0": "0-1", "hw:numa_cpus.1": "2-3", "hw:numa_mem.0": "2048",
		"hw:numa_mem.1": "2048"}
	with := func(change specs) specs {
		out := specs{}
		for k, v := range maps {
			out[k] = v
		}
		for k, v := range change {
			out[k] = v
			if v == "" {
				delete(out, k)
			}
		}
		return out
	}
	for _, c := range []struct {
		name     string
		specs    specs
		image    specs
		kind     fault.Kind
		wantText string
	}{
		{"invalid number of nodes", specs{"hw:numa_nodes": "0"}, nil, fault.Invalid, "hw:numa_nodes"},
		{"invalid number of nodes in the image", nil, specs{"hw_numa_nodes": "x"}, fault.Invalid,
			"image property hw_numa_nodes"},
		{"nodes differ", specs{"hw:numa_nodes": "1"}, specs{"hw_numa_nodes": "2"}, fault.Invalid, "hw_numa_nodes"},
		{"CPUs that cannot be divided evenly", specs{"hw:numa_nodes": "3"}, nil, fault.Invalid, "cannot be divided evenly"},
		{"more nodes than CPUs", specs{"hw:numa_nodes": "2000000000"}, nil, fault.Invalid, "cannot be divided evenly"},
		{"maps without nodes", with(specs{"hw:numa_nodes": ""}), nil, fault.Invalid, "set their number in hw:numa_nodes"},
		{"incomplete maps", with(specs{"hw:numa_mem.1": ""}), nil, fault.Invalid, "of all cells or of none"},
		{"a map of a cell that does not exist", with(specs{"hw:numa_mem.2": "1"}), nil, fault.Invalid, "hw:numa_mem.2"},
		{"a CPU in two cells", with(specs{"hw:numa_cpus.1": "1-3"}), nil, fault.Invalid, "CPU 1, which NUMA cell 0 has"},
		{"a CPU that does not exist", with(specs{"hw:numa_cpus.1": "2-4"}), nil, fault.Invalid, "there are 4 CPUs"},
		{"a CPU without a cell", with(specs{"hw:numa_cpus.1": "3"}), nil, fault.Invalid, "3 CPUs together"},
		{"invalid CPU list", with(specs{"hw:numa_cpus.1": "b"}), nil, fault.Invalid, "hw:numa_cpus.1"},
		{"memory without a cell", with(specs{"hw:numa_mem.1": "1024"}), nil, fault.Invalid, "3072 MiB together"},
		{"invalid memory", with(specs{"hw:numa_mem.1": "much"}), nil, fault.Invalid, "hw:numa_mem.1"},
		{"maps differ", maps, specs{"hw_numa_mem.0": "1024"}, fault.Invalid, "hw_numa_mem.0"},
		{"invalid page size", specs{"hw:mem_page_size": "huge"}, nil, fault.Invalid, "hw:mem_page_size"},
		{"page size that is not a power of two", specs{"hw:mem_page_size": "3000"}, nil, fault.Invalid,
			"must be a power of two"},
		{"page size of the image alone", nil, specs{"hw_mem_page_size": "2048"}, fault.Invalid, "hw_mem_page_size"},
		{"large pages of the image, small of the flavor", specs{"hw:mem_page_size": "small"},
			specs{"hw_mem_page_size": "2048"},
			fault.Invalid, "hw_mem_page_size"},
		{"small pages of the image, large of the flavor", specs{"hw:mem_page_size": "large"},
			specs{"hw_mem_page_size": "small"},
			fault.Invalid, "hw_mem_page_size"},
		{"memory not a multiple of the page", specs{"hw:mem_page_size": "1GB", "hw:numa_nodes": "2", "hw:numa_cpus.0": "0-1",
			"hw:numa_cpus.1": "2-3", "hw:numa_mem.0": "1536", "hw:numa_mem.1": "2560"},
			nil, fault.Invalid, "not a multiple"},
		{"invalid CPU policy", specs{"hw:cpu_policy": "pinned"}, nil, fault.Invalid, "hw:cpu_policy"},
		{"dedicated in the image, shared in the flavor", specs{"hw:cpu_policy": "shared"},
			specs{"hw_cpu_policy": "dedicated"}, fault.Invalid,
			"hw_cpu_policy"},
		{"dedicated in the image, mixed in the flavor", specs{"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
			specs{"hw_cpu_policy": "dedicated"}, fault.Invalid, "hw_cpu_policy"},
		{"CPU policy and PCPU", specs{"hw:cpu_policy": "dedicated", "resources:PCPU": "4"}, nil, fault.Invalid,
			"remove one of them"},
		{"shared and PCPU", specs{"hw:cpu_policy": "shared", "resources:PCPU": "4"}, nil, fault.Invalid,
			"remove one of them"},
		{"PCPU for some CPUs", specs{"resources:PCPU": "2"}, nil, fault.Invalid, "hw:cpu_policy=mixed"},
		{"PCPU and isolated emulator", specs{"resources:PCPU": "4", "hw:emulator_threads_policy": "isolate"}, nil,
			fault.Invalid,
			"hw:cpu_policy=dedicated"},
		{"mixed without mask", specs{"hw:cpu_policy": "mixed"}, nil, fault.Invalid, "hw:cpu_dedicated_mask"},
		{"mask of all", specs{"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}, nil, fault.Invalid, "4 of 4"},
		{"mask of none", specs{"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0-3"}, nil, fault.Invalid, "0 of 4"},
		{"mask alone", specs{"hw:cpu_dedicated_mask": "0"}, nil, fault.Invalid, "requires hw:cpu_policy=mixed"},
		{"invalid thread policy", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "x"}, nil, fault.Invalid,
			"hw:cpu_thread_policy"},
		{"thread policy without dedicated CPUs", specs{"hw:cpu_thread_policy": "isolate"}, nil, fault.Invalid,
			"no CPU is dedicated"},
		{"thread policies differ", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
			specs{"hw_cpu_thread_policy": "isolate"}, fault.Invalid, "hw_cpu_thread_policy"},
		{"isolated emulator without dedicated CPUs", specs{"hw:emulator_threads_policy": "isolate"}, nil, fault.Invalid,
			"no CPU is dedicated"},
		{"invalid trait of the image", nil, specs{"trait:AVX": "required"}, fault.Invalid, `"AVX"`},
		{"forbidden trait of the image", nil, specs{"trait:HW_CPU_X86_AVX2": "forbidden"}, fault.Invalid, "write required"},
		{"trait of the image that the flavor forbids", specs{"trait:CUSTOM_GOLD": "forbidden"},
			specs{"trait:CUSTOM_GOLD": "required"}, fault.Invalid, "both required and forbidden"},
		{"thread policy isolate and a required trait", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate",
			"trait:HW_CPU_HYPERTHREADING": "required"}, nil,
			fault.Invalid, "both required and forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := flavor.Flavor{Name: "four", VCPUs: 4, MemoryMB: 4096, ExtraSpecs: c.specs}
			_, _, err := flavor.Ask(f, flavor.Image{Properties: c.image}, aliases(t), flavor.Options{}, countedIDs())
			if !fault.Is(err, c.kind) || !strings.Contains(fault.TextOf(err), c.wantText) {
				t.Errorf("got %v, want %s with %s", err, c.kind, c.wantText)
			}
		})
	}
}

// TestTooManyCPUsAreRejected checks that a flavor with too many CPUs is rejected, before the CPUs are listed.
func TestTooManyCPUsAreRejected(t *testing.T) {
	for _, s := range []specs{{"hw:cpu_policy": "dedicated"}, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
		{"hw:numa_nodes": "1"}, {"resources:PCPU": "2147483647"}} {
		f := flavor.Flavor{Name: "huge", VCPUs: 1<<31 - 1, MemoryMB: 1, ExtraSpecs: s}
		if _, err := flavor.Topology(f, flavor.Image{}); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err),
			"4096") {
			t.Errorf("%v: %v", s, err)
		}
	}
	f := flavor.Flavor{Name: "huge", VCPUs: 1<<31 - 1, MemoryMB: 1}
	if parts, err := flavor.Topology(f, flavor.Image{}); parts != nil || err != nil {
		t.Errorf("without cells, any number of CPUs is allowed: %v %v", parts, err)
	}
}

// FuzzTopology checks that any settings are rejected, or yield cells with all CPUs and the whole memory.
func FuzzTopology(f *testing.F) {
	f.Add("2", "0-1", "2-3", "2048", "any", "mixed", "^0", "isolate")
	f.Add("1", "^0", ",", "-1", "1GB", "dedicated", "", "share")
	f.Fuzz(func(t *testing.T, nodes, cpus0, cpus1, mem, pages, policy, mask, emulator string) {
		fl := flavor.Flavor{Name: "f", VCPUs: 4, MemoryMB: 4096, ExtraSpecs: specs{}}
		for key, value := range map[string]string{"hw:numa_nodes": nodes, "hw:numa_cpus.0": cpus0, "hw:numa_cpus.1": cpus1,
			"hw:numa_mem.0": mem, "hw:numa_mem.1": "2048",
			"hw:mem_page_size": pages, "hw:cpu_policy": policy, "hw:cpu_dedicated_mask": mask,
			"hw:emulator_threads_policy": emulator} {
			if value != "" {
				fl.ExtraSpecs[key] = value
			}
		}
		parts, err := flavor.Topology(fl, flavor.Image{})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%v: %v", fl.ExtraSpecs, err)
			}
			return
		}
		total, memory := 0, 0
		for _, p := range parts {
			total, memory = total+len(p.VCPUs), memory+p.MemoryMB
		}
		if len(parts) > 0 && (total != 4 || memory != 4096) {
			t.Errorf("%v: %+v", fl.ExtraSpecs, parts)
		}
	})
}
