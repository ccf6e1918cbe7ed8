package provider

import (
	"strings"
	"testing"

	"github.com/openberth/berth/resource"
)

func TestPrintDrawsParentsBeforeChildren(t *testing.T) {
	tree := Tree{Providers: []Provider{
		{
			ID:          "vf",
			Name:        "h_0000:3b:00.0",
			Parent:      "h",
			Root:        "h",
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_NIC": resource.Whole(4)},
			Traits:      []resource.Trait{"CUSTOM_A", "CUSTOM_B"},
		},
		{
			ID:   "h",
			Name: "h",
			Root: "h",
			Inventories: map[resource.Class]resource.Inventory{
				"VCPU": {Total: 4, Reserved: 1, AllocationRatio: 2, MinUnit: 1, MaxUnit: 4, StepSize: 1},
			},
		},
		{ID: "n0", Name: "h_numa0", Parent: "h", Root: "h"},
		{ID: "gpu", Name: "h_gpu", Parent: "n0", Root: "h"},
	}}
	var b strings.Builder
	if err := tree.Print(&b, Used{"vf": {"CUSTOM_NIC": 1}}); err != nil {
		t.Fatal(err)
	}
	want := `h  VCPU 0/6 (1 reserved)
├─ h_0000:3b:00.0  CUSTOM_NIC 1/4  [CUSTOM_A CUSTOM_B]
└─ h_numa0
   └─ h_gpu
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
	if root, ok := tree.Root(); !ok || root.ID != "h" {
		t.Errorf("root %v %v", root, ok)
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{"cmp1_0000:3B:00.0": "cmp1_0000:3B:00.0", "ä": "ä",
		"a\x1b[2Jb\n": `a\x1b[2Jb\n`} {
		if got := Printable(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
