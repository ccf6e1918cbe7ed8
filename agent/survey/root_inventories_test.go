package survey

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func TestRootInventories(t *testing.T) {
	f := sampleFacts(t)
	f.DiskGB, f.Traits = RootInventory{Total: 100, Reserved: 1, Ratio: 1.5},
		[]resource.Trait{"HW_CPU_X86_AVX", "COMPUTE_NODE"}
	tree, _, err := Desired(f)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Provider{ID: root, Root: root, Name: "cmp1",
		Traits: []resource.Trait{"COMPUTE_NODE", "HW_CPU_X86_AVX", "OWNER_NOVA"},
		Inventories: map[resource.Class]resource.Inventory{
			"VCPU":      {Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 4},
			"MEMORY_MB": {Total: 1024, Reserved: 512, MinUnit: 1, MaxUnit: 1024, StepSize: 1, AllocationRatio: 1},
			"DISK_GB":   {Total: 100, Reserved: 1, MinUnit: 1, MaxUnit: 100, StepSize: 1, AllocationRatio: 1.5},
		}}
	if !reflect.DeepEqual(tree.Providers, []provider.Provider{want}) {
		t.Errorf("%+v", tree.Providers)
	}
}
