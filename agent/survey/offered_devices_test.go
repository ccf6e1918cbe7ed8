package survey

import (
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// The rules determine which devices are offered, and each offer has the properties of its rule.
func TestOffersHaveRuleProperties(t *testing.T) {
	f := sampleFacts(t, `{"product_id":"1515","live_migratable":"yes","managed":"no"}`,
		`{"address":"0000:82:00.0","live_migratable":"no","managed":"yes"}`, `{"address":"0000:83:00.0"}`)
	want := map[string]pci.Flag{"0000:81:00.1": pci.Yes, "0000:81:00.2": pci.Yes, "0000:82:00.0": pci.No,
		"0000:83:00.0": pci.Unset}
	offers := Offers(f)
	for _, o := range offers {
		if flag, offered := want[o.Device.Address.String()]; !offered || o.LiveMigratable != flag {
			t.Errorf("%s is offered as %q, want %q", o.Device, o.LiveMigratable, flag)
		}
		if managed := map[pci.Flag]pci.Flag{pci.Yes: pci.No, pci.No: pci.Yes,
			pci.Unset: pci.Unset}[o.LiveMigratable]; o.Managed != managed {
			t.Errorf("%s: managed %q, want %q", o.Device, o.Managed, managed)
		}
	}
	if len(offers) != len(want) {
		t.Errorf("%d of %d devices are offered", len(offers), len(want))
	}
}

// Each offer names the provider that counts it, the same one for all VFs of a PF; none for devices of ports, and
// without reporting.
func TestOffersNameProviders(t *testing.T) {
	f := sampleFacts(t, `{"product_id":"1515"}`, `{"address":"0000:82:00.0","physical_network":"p"}`,
		`{"address":"0000:83:00.0"}`)
	f.Actual.Providers = []provider.Provider{{ID: "old", Name: "cmp1_0000:83:00.0", Parent: root, Root: root}}
	tree, _, err := Desired(f)
	if err != nil {
		t.Fatal(err)
	}
	card, _ := tree.ByName("cmp1_0000:81:00.0")
	want := map[pci.Address]provider.ID{vf1: card.ID, vf2: card.ID, pf82: "", gpu: "old"}
	for _, report := range []bool{true, false} {
		f.Report = report
		offers := Offers(f)
		for _, o := range offers {
			if id := want[o.Device.Address]; o.Provider != id && report || o.Provider != "" && !report {
				t.Errorf("reporting %v: %s has provider %q, want %q", report, o.Device, o.Provider, id)
			}
		}
		if len(offers) != len(want) || card.ID == "" {
			t.Errorf("%d offers", len(offers))
		}
	}
}
