package flavor_test

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/compute/flavor"
)

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
