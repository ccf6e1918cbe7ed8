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

func TestFlavorFitsImage(t *testing.T) {
	for _, c := range []struct {
		name     string
		disk     int
		image    flavor.Image
		wantText string // empty: it fits
	}{
		{"no requirements", 1, flavor.Image{}, ""},
		{"exactly the required sizes", 1, flavor.Image{MinRAM: 512, MinDisk: 1, Size: 1 << 30}, ""},
		{"too little memory", 1, flavor.Image{MinRAM: 513}, "Flavor's memory is too small for requested image"},
		{"an image larger than the disk", 1, flavor.Image{Size: 1<<30 + 1},
			"Flavor disk is 1073741824 bytes, image is 1073741825 bytes"},
		{"too small a disk", 1, flavor.Image{MinDisk: 2}, "minimum size is 2147483648 bytes"},
		{"a root disk as large as the image", 0, flavor.Image{Size: 1 << 40, MinDisk: 100}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := flavor.Fits(flavor.Flavor{Name: "f", MemoryMB: 512, DiskGB: c.disk}, c.image)
			if (err == nil) != (c.wantText == "") ||
				err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.wantText)) {
				t.Errorf("got %v, want %q", err, c.wantText)
			}
		})
	}
}

func TestConstraintsNameTheirSources(t *testing.T) {
	f := flavor.Flavor{ExtraSpecs: specs{"hw:numa_nodes": "2", "hw:mem_page_size": "large", "hw:cpu_policy": "dedicated",
		"trait:CUSTOM_A": "forbidden", "other": "x"}}
	i := flavor.Image{Properties: specs{"hw_numa_nodes": "2", "hw_mem_page_size": "2MB", "hw_cpu_policy": "shared",
		"hw_numa_mem.0": "1", "hw_pci_numa_affinity_policy": "socket",
		"hw_cpu_dedicated_mask": "0", "trait:CUSTOM_B": "required", "hw_disk_bus": "scsi"}}
	want := []flavor.Constraint{
		{Key: "hw:cpu_policy", Value: "dedicated", Sources: []string{"extra spec hw:cpu_policy"}},
		{Key: "hw:mem_page_size", Value: "2MB", Sources: []string{"image property hw_mem_page_size"}},
		{Key: "hw:numa_mem.0", Value: "1", Sources: []string{"image property hw_numa_mem.0"}},
		{Key: "hw:numa_nodes", Value: "2", Sources: []string{"extra spec hw:numa_nodes", "image property hw_numa_nodes"}},
		{Key: "hw:pci_numa_affinity_policy", Value: "socket",
			Sources: []string{"image property hw_pci_numa_affinity_policy"}},
		{Key: "trait:CUSTOM_A", Value: "forbidden", Sources: []string{"extra spec trait:CUSTOM_A"}},
		{Key: "trait:CUSTOM_B", Value: "required", Sources: []string{"image property trait:CUSTOM_B"}},
	}
	if got := flavor.Constraints(f, i); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := flavor.Constraints(flavor.Flavor{}, flavor.Image{}); len(got) > 0 {
		t.Errorf("without settings: %+v", got)
	}
}

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
