package loop

import (
	"maps"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The report has the provider of each device by its ID in Placement, also for a provider that existed before the
// agent. A sync without changes reports nothing. A later VF has the same provider.
func TestDevicesReportTheirProviders(t *testing.T) {
	scenario(t, "providers of devices and of a later VF", func(t *testing.T, w *testHost) {
		const old = "33333333-3333-4333-8333-333333333333"
		w.placement.setTree(provider.Provider{ID: rootID, Name: "cmp1"},
			provider.Provider{ID: old, Name: name1, Parent: rootID,
				Traits: []resource.Trait{"COMPUTE_MANAGED_PCI_DEVICE"}})
		setRules(w,
			`[{"address":"0000:3b:00.*","product_id":"154c"},{"address":"0000:5e:00.0","product_id":"1572",`+
				`"physical_network":"p"}]`)
		a, stop := w.startReported()
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		w.until("three VFs are counted", func() bool { return w.total(name1, class) == 3 })
		want := map[string]string{"0000:3b:00.1": old, "0000:3b:00.2": old, "0000:3b:00.3": old, pf2: ""}
		got := map[string]string{}
		for _, d := range a.Report().Devices {
			got[d.Address] = d.Provider
		}
		if !maps.Equal(got, want) || string(w.provider(name1).ID) != old {
			t.Errorf("%v, want %v", got, want)
		}
		must(t, stop())
	})
}
