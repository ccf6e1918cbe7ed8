package loop

import (
	"slices"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

func TestConfiguredTraitsAndClasses(t *testing.T) {
	scenario(t, "traits of the configuration are added and removed, those of others are kept",
		func(t *testing.T, w *testHost) {
			for at := 1; at < 20; at++ { // the agent that writes the first ones crashes at each call
				setRules(w, `{"vendor_id":"8086","product_id":"154c","traits":"CUSTOM_OLD"}`)
				crashes, _ := crashOnce(at, true)
				w.runAgents(func() bool { return w.provider(name2).HasTrait("CUSTOM_OLD") }, crashes)
				for _, p := range w.placement.tree().Providers {
					w.placement.change(p.Name, func(p *provider.Provider) {
						p.Traits = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(p.Traits), "CUSTOM_FOREIGN"))))
					})
				}
				setRules(w, `{"vendor_id":"8086","product_id":"154c","traits":"CUSTOM_NEW"}`)
				_, stop := w.startReported()
				must(t, stop())
				for _, name := range []string{name1, name2} {
					if p := w.provider(name); p.HasTrait("CUSTOM_OLD") || !p.HasTrait("CUSTOM_NEW") || !p.HasTrait("CUSTOM_FOREIGN") {
						t.Fatalf("crash at call %d: %s has %v", at, name, p.Traits)
					}
				}
				if p := w.provider("cmp1"); !p.HasTrait("CUSTOM_FOREIGN") {
					t.Fatalf("the root has %v", p.Traits)
				}
				// Back to the first state, except for the traits of others.
				setRules(w, `{"vendor_id":"8086","product_id":"154c"}`)
				_, stop = w.startReported()
				must(t, stop())
			}
		})
	scenario(t, "another class for a device is written while it is free, and refused while it is held",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			must(t, stop())
			setRules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
			_, stop = w.startReported()
			if p := w.provider(name1); p.Inventories["CUSTOM_NIC"].Total != 2 || len(p.Inventories) != 1 {
				t.Errorf("%+v", p)
			}
			setRules(w, `{"vendor_id":"8086","product_id":"154c"}`)
			must(t, stop())
			_, stop = w.startReported()
			w.compute.assign(w.server("s1", name1))
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			setRules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
			contains(t, w.refusedStart(fault.Invalid), "CUSTOM_NIC", "s1", class)
			w.checkConsistent("s1")
		})
	scenario(t, "an allocation of an unknown consumer keeps the class of a device", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		must(t, stop())
		w.server("stranger", name1) // a consumer that this host does not have
		setRules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"nic"}`)
		_, stop = w.startReported()
		contains(t, w.compute.conditions(), name1, class, "stranger")
		if p := w.provider(name1); p.Inventories[class].Total != 2 || len(p.Inventories) != 1 {
			t.Errorf("%+v", p)
		}
		if p := w.provider(name2); p.Inventories["CUSTOM_NIC"].Total != 2 {
			t.Errorf("the other device was not healed: %+v", p)
		}
		must(t, stop())
	})
}
