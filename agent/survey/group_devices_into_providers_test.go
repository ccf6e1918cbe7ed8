package survey

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// A VF and one that carries vDPA are counted together; with different products they are refused.
func TestVDPABesideVFs(t *testing.T) {
	f := sampleFacts(t, `{"product_id":"1515"}`, `{"product_id":"1516"}`)
	f.Devices[3].Type = pci.VDPA
	if p := picture(f); !strings.Contains(p, "CUSTOM_PCI_8086_1515 0/2") {
		t.Error(p)
	}
	f.Devices[3].Product = "1516"
	if _, _, err := Desired(f); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "CUSTOM_PCI_8086_1516") {
		t.Error(err)
	}
}

// A vDPA device counts as a VF of its PF, so that one of another product needs a class in common.
func TestVDPA(t *testing.T) {
	f := sampleFacts(t, `{"address":"0000:81:00.1"}`, `{"address":"0000:81:00.2"}`)
	f.Devices[2].Type = pci.VDPA
	expect(t, f, rootLine, "└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]")
	f.Devices[2].Product = "1516"
	if _, _, err := Desired(f); !strings.Contains(fault.TextOf(err), "need one class") {
		t.Errorf("VF with vDPA: %v", err)
	}
	f = sampleFacts(t, `{"address":"0000:81:00.0"}`)
	f.Devices = slices.Delete(f.Devices, 3, 4)
	f.Devices[2].Type = pci.VDPA
	if _, _, err := Desired(f); !strings.Contains(fault.TextOf(err), "both offered") {
		t.Errorf("a PF and its vDPA device: %v", err)
	}
}

// A provider is a child of the root with the number of its devices as total, and with Placement's ID or one derived
// from its name.
func TestProvidersOfDevices(t *testing.T) {
	f := sampleFacts(t, `{"product_id":"1515"}`)
	id := ProviderID(root, "cmp1_0000:81:00.0")
	want := provider.Provider{ID: id, Name: "cmp1_0000:81:00.0", Parent: root, Root: root,
		Traits: []resource.Trait{ManagedPCI, OwnerNova}, Inventories: map[resource.Class]resource.Inventory{
			"CUSTOM_PCI_8086_1515": {Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1}}}
	check := func(want provider.Provider) {
		t.Helper()
		tree, _, err := Desired(f)
		if got, _ := tree.ByName(want.Name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v\nwant %+v", got, err, want)
		}
		for _, o := range Offers(f) {
			if o.Provider != want.ID || o.Name != want.Name || o.ResourceClass != "CUSTOM_PCI_8086_1515" {
				t.Errorf("%+v", o)
			}
		}
	}
	check(want)
	f.Actual = provider.Tree{Providers: []provider.Provider{{ID: root, Name: "cmp1"},
		{ID: "known", Name: "cmp1_0000:81:00.0", Parent: root}}}
	want.ID = "known"
	check(want)
}
