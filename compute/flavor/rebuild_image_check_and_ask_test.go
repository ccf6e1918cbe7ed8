package flavor_test

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// TestCheckRebuildAllowsSameClaim checks that the new image of a rebuild must not change the claim, because a rebuild
// claims nothing.
func TestCheckRebuildAllowsSameClaim(t *testing.T) {
	devices := specs{"pci_passthrough:alias": "nic:1", "hw:numa_nodes": "1"}
	for _, c := range []struct {
		name          string
		specs         specs
		before, after specs
		wantText      string // empty: it may be rebuilt
		more          string // the traits that the host must have
	}{
		{"no requirements", nil, nil, nil, "", ""},
		{"a property without effect on placement changes", nil, specs{"hw_disk_bus": "ide"}, specs{"hw_disk_bus": "scsi"}, "",
			""},
		{"the same page size, written differently", specs{"hw:mem_page_size": "large"}, specs{"hw_mem_page_size": "2048"},
			specs{"hw_mem_page_size": "2MB"}, "", ""},
		{"the same as the flavor", specs{"hw:numa_nodes": "2"}, nil, specs{"hw_numa_nodes": "2"}, "", ""},
		{"cells are added", nil, nil, specs{"hw_numa_nodes": "2"},
			`image property hw_numa_nodes is "2", and the server was created without it`, ""},
		{"cells are removed", nil, specs{"hw_numa_nodes": "2"}, nil,
			`image property hw_numa_nodes was "2", and the image does not have it`, ""},
		{"another number of cells", nil, specs{"hw_numa_nodes": "2"}, specs{"hw_numa_nodes": "1"},
			`is "1", and the server was created with "2"`, ""},
		{"CPUs become dedicated", nil, nil, specs{"hw_cpu_policy": "dedicated"}, "hw_cpu_policy", ""},
		{"another page size", specs{"hw:mem_page_size": "any"}, specs{"hw_mem_page_size": "2MB"},
			specs{"hw_mem_page_size": "1GB"},
			"hw_mem_page_size", ""},
		{"another NUMA policy of devices", devices, nil, specs{"hw_pci_numa_affinity_policy": "required"},
			"hw_pci_numa_affinity_policy", ""},
		{"a NUMA policy without devices", specs{"hw:numa_nodes": "1"}, nil, specs{"hw_pci_numa_affinity_policy": "required"},
			"",
			""},
		{"a NUMA policy without cells", specs{"pci_passthrough:alias": "nic:1"}, nil,
			specs{"hw_pci_numa_affinity_policy": "required"}, "", ""},
		{"additional traits", nil, nil, specs{"trait:HW_CPU_X86_AVX2": "required", "trait:CUSTOM_A": "required"}, "",
			"[CUSTOM_A HW_CPU_X86_AVX2]"},
		{"a trait that the flavor required", specs{"trait:HW_CPU_X86_AVX2": "required"}, nil,
			specs{"trait:HW_CPU_X86_AVX2": "required"}, "", ""},
		{"a trait that the thread policy required", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
			nil, specs{"trait:HW_CPU_HYPERTHREADING": "required"}, "", ""},
		{"a trait that the flavor forbids", specs{"trait:CUSTOM_A": "forbidden"}, nil, specs{"trait:CUSTOM_A": "required"},
			"both required and forbidden", ""},
		{"a trait that the thread policy forbids", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
			nil, specs{"trait:HW_CPU_HYPERTHREADING": "required"},
			"both required and forbidden", ""},
		{"a trait is removed", nil, specs{"trait:HW_CPU_X86_AVX2": "required"}, nil, "", ""},
		{"an invalid value", nil, nil, specs{"hw_numa_nodes": "many"}, "image property hw_numa_nodes", ""},
		{"an image that contradicts the flavor", specs{"hw:numa_nodes": "2"}, nil, specs{"hw_numa_nodes": "1"},
			"may not override", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := flavor.Flavor{Name: "f", VCPUs: 2, MemoryMB: 2048, ExtraSpecs: c.specs}
			more, err := flavor.CheckRebuild(f, flavor.Image{ID: "old", Properties: c.before},
				flavor.Image{ID: "new", Properties: c.after})
			if (err == nil) != (c.wantText == "") ||
				err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.wantText)) {
				t.Errorf("got %v, want %q", err, c.wantText)
			}
			if want := cmp.Or(c.more, "[]"); fmt.Sprint(more) != want {
				t.Errorf("additional traits %v, want %s", more, want)
			}
		})
	}
}

// TestAskAfterRebuild checks that the request after a rebuild is that of a new server with this flavor and image.
func TestAskAfterRebuild(t *testing.T) {
	for _, c := range []struct {
		name          string
		specs         specs
		before, after specs
	}{
		{"a trait is removed", nil, specs{"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "required"},
			specs{"trait:CUSTOM_B": "required"}},
		{"a trait is added", nil, specs{"trait:CUSTOM_A": "required"}, specs{"trait:CUSTOM_A": "required",
			"trait:CUSTOM_B": "required"}},
		{"a trait is replaced", nil, specs{"trait:CUSTOM_A": "required"}, specs{"trait:CUSTOM_B": "required"}},
		{"a trait of the root is added", specs{"resources1:VCPU": "2", "resources1:MEMORY_MB": "64"}, nil,
			specs{"trait:CUSTOM_B": "required"}},
		{"all traits are removed", nil, specs{"trait:CUSTOM_A": "required"}, nil},
		{"the flavor requires it too", specs{"trait:CUSTOM_A": "required"}, specs{"trait:CUSTOM_A": "required"}, nil},
		{"the thread policy requires it too", specs{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
			specs{"trait:HW_CPU_HYPERTHREADING": "required"}, nil},
		{"a trait of the root is removed", specs{"resources1:VCPU": "2", "resources1:MEMORY_MB": "64"},
			specs{"trait:CUSTOM_A": "required",
				"trait:CUSTOM_B": "required"}, specs{"trait:CUSTOM_A": "required"}},
		{"a trait that a device requires too", specs{"pci_passthrough:alias": "gpu:1"},
			specs{"trait:CUSTOM_FAST": "required"}, nil},
		{"the trait of the socket policy", specs{"pci_passthrough:alias": "gpu:1", "hw:numa_nodes": "1",
			"hw:pci_numa_affinity_policy": "socket"},
			specs{"trait:COMPUTE_SOCKET_PCI_NUMA_AFFINITY": "required"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := flavor.Flavor{Name: "f", VCPUs: 2, MemoryMB: 64, ExtraSpecs: c.specs}
			before, after := flavor.Image{Properties: c.before}, flavor.Image{Properties: c.after}
			ask := func(i flavor.Image) resource.Ask {
				a, _, err := flavor.Ask(f, i, aliases(t), flavor.Options{PCIInPlacement: true}, countedIDs())
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			old := ask(before)
			got, want := flavor.AskAfterRebuild(f, before, after, old), ask(after)
			if format(got) != format(want) || fmt.Sprint(got.RootRequired) != fmt.Sprint(want.RootRequired) {
				t.Errorf("got\n%s%v\nwant\n%s%v", format(got), got.RootRequired, format(want), want.RootRequired)
			}
			if again := ask(before); !reflect.DeepEqual(old, again) {
				t.Error("AskAfterRebuild has changed its argument")
			}
		})
	}
}
