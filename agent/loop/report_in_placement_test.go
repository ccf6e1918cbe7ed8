package loop

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// What is written to Placement follows changes of the host and of the configuration, for free and for held devices.
func TestReportInPlacement(t *testing.T) {
	scenario(t, "the rule of a free device is removed, then a free device", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		setRules(w, gpuRule)
		_, stop := w.startReported()
		if w.total(gpuName, gpuClass) != 1 {
			t.Errorf("%+v", w.provider(gpuName))
		}
		stop = w.restart(stop, vfRule)
		if w.provider(gpuName).ID != "" || w.total(name1, class) != 2 {
			t.Error("the provider of a device without a rule is not deleted")
		}
		w.sysfs.remove("0000:3b:00.2")
		stop = w.restart(stop, vfRule)
		if w.total(name1, class) != 1 || w.provider(name1).Inventories[class].MaxUnit != 1 {
			t.Errorf("%+v", w.provider(name1))
		}
		must(t, stop())
	})
	scenario(t, "VFs to PF and back, on the same provider in one step", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		id := w.provider(name1).ID
		stop = w.restart(stop, pfRule)
		if p := w.provider(name1); p.ID != id || p.Inventories[pfClass].Total != 1 || len(p.Inventories) != 1 {
			t.Errorf("%+v", p)
		}
		stop = w.restart(stop, vfRule)
		if p := w.provider(name1); p.ID != id || p.Inventories[class].Total != 2 || len(p.Inventories) != 1 {
			t.Errorf("%+v", p)
		}
		must(t, stop())
	})
	scenario(t, "class and traits of VFs and of a PF while free", func(t *testing.T, w *testHost) {
		setRules(w, `{"vendor_id":"8086","product_id":"154c","traits":"foo"}`)
		_, stop := w.startReported()
		stop = w.restart(stop, `{"vendor_id":"8086","product_id":"154c","resource_class":"vf","traits":"bar"}`)
		if p := w.provider(name1); p.Inventories["CUSTOM_VF"].Total != 2 || len(p.Inventories) != 1 ||
			p.HasTrait("CUSTOM_FOO") || !p.HasTrait("CUSTOM_BAR") {
			t.Errorf("%+v", p)
		}
		stop = w.restart(stop, `{"vendor_id":"8086","product_id":"1572","traits":"foo"}`)
		stop = w.restart(stop, `{"vendor_id":"8086","product_id":"1572","resource_class":"pf","traits":"bar"}`)
		if p := w.provider(name1); w.total(name1, "CUSTOM_PF") != 1 || len(p.Inventories) != 1 || p.HasTrait("CUSTOM_FOO") ||
			!p.HasTrait("CUSTOM_BAR") {
			t.Errorf("%+v", p)
		}
		must(t, stop())
	})
	scenario(t, "the rule of a held device is removed, then the device is freed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		stop = w.restart(stop, secondCardRule)
		if p := w.provider(name1); p.Inventories[class].Total != 1 || !strings.Contains(w.compute.conditions(), "s1") {
			t.Errorf("%+v, conditions %q", p, w.compute.conditions())
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("it is gone", func() bool { return w.provider(name1).ID == "" && w.compute.conditions() == "" })
		must(t, stop())
	})
	scenario(t, "the start is refused when the class or type of a held device would change",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			w.compute.assign(w.server("s1", name1))
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			writes := w.writes()
			setRules(w, pfRule)
			contains(t, w.refusedStart(fault.Invalid), "0000:3b:00.0", "0000:3b:00.1", "s1", "until the server is gone")
			setRules(w, `{"vendor_id":"8086","product_id":"154c","resource_class":"other"}`)
			contains(t, w.refusedStart(fault.Invalid), "CUSTOM_OTHER", "s1", class)
			if w.writes() != writes {
				t.Errorf("a refused configuration wrote %d times", w.writes()-writes)
			}
			setRules(w, vfRule)
			_, stop = w.startReported()
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			w.checkConsistent("s1")
		})
	scenario(t, "the class of a held device changes while the agent runs: it keeps serving and reports a condition",
		func(t *testing.T, w *testHost) {
			w.addOneTimeDevice()
			_, stop := w.startReported()
			w.compute.assign(w.gpuServer("s1"))
			w.untilPhase(host.Running, "s1")
			must(t, stop())
			setRules(w, `{"vendor_id":"8086"}`)
			w.sysfs.change(func(m fstest.MapFS) {
				for name := range m {
					if strings.Contains(name, "0000:3b:") || strings.Contains(name, "0000:5e:") {
						delete(m, name)
					}
				}
			})
			contains(t, w.refusedStart(fault.Invalid), gpuClass, "s1")
			w.sysfs.change(func(m fstest.MapFS) {
				m["bus/pci/devices/"+gpuAddress+"/device"] = &fstest.MapFile{Data: []byte("0x20b0\n")}
			})
			setRules(w, `{"vendor_id":"8086","product_id":"20b0","resource_class":"gpu"}`)
			_, stop = w.startReported()
			w.sysfs.change(func(m fstest.MapFS) {
				m["bus/pci/devices/"+gpuAddress+"/device"] = &fstest.MapFile{Data: []byte("0x20b1\n")}
			})
			w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), gpuAddress) })
			w.compute.assign(w.gpuServer("s1"), w.server("s2"))
			w.untilPhase(host.Running, "s2")
			must(t, stop())
		})
	scenario(t, "held devices vanish, and their rule is unchanged", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1, name1))
		w.untilPhase(host.Running, "s1")
		w.sysfs.remove("0000:3b:00.1")
		w.sysfs.remove("0000:3b:00.2")
		stop = w.restart(stop, vfRule)
		time.Sleep(3 * time.Minute)
		if w.total(name1, class) != 2 || !strings.Contains(w.compute.conditions(), "0000:3b:00.1") {
			t.Errorf("%+v, conditions %q", w.provider(name1), w.compute.conditions())
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "the rules of two VFs are removed while one is held", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		stop = w.restart(stop, `{"vendor_id":"ffff"}`)
		if w.total(name1, class) != 1 || w.provider(name2).ID != "" {
			t.Errorf("%+v", w.placement.tree())
		}
		contains(t, w.compute.conditions(), "0000:3b:00.1", "s1", "until the server is gone")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("it is gone", func() bool { return w.provider(name1).ID == "" })
		must(t, stop())
	})
	scenario(t, "the number of VFs changes while one is held", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		w.sysfs.add("0000:3b:00.4", "154c", pf1)
		w.until("four VFs are counted", func() bool { return w.total(name1, class) == 4 })
		w.sysfs.remove("0000:3b:00.2")
		w.sysfs.remove("0000:3b:00.3")
		w.sysfs.remove("0000:3b:00.4")
		w.until("one VF is counted", func() bool { return w.total(name1, class) == 1 })
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "physical_network is added, null or not, while free and while held", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		for _, net := range []string{`"physnet2"`, `null`} {
			stop = w.restart(stop, `{"vendor_id":"8086","product_id":"154c","physical_network":`+net+`}`)
			if w.total(name1, class) != 1 || w.provider(name2).ID != "" {
				t.Errorf("%s: %+v", net, w.placement.tree())
			}
			w.checkConsistent("s1")
		}
		stop = w.restart(stop, vfRule)
		if w.total(name1, class) != 2 || w.total(name2, class) != 2 {
			t.Errorf("%+v", w.placement.tree())
		}
		must(t, stop())
	})
	scenario(t, "traits change while held: applied, and the holders are named", func(t *testing.T, w *testHost) {
		setRules(w, `{"vendor_id":"8086","product_id":"154c","traits":"foo"}`)
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		setRules(w, `{"vendor_id":"8086","product_id":"154c","traits":"bar"}`)
		plan, err := w.agent().Plan(t.Context())
		must(t, err)
		contains(t, strings.Join(plan.Notes, "\n"), "-CUSTOM_FOO", "s1")
		_, stop = w.startReported()
		contains(t, w.compute.conditions(), "+CUSTOM_BAR", "s1")
		if p := w.provider(name1); p.HasTrait("CUSTOM_FOO") || !p.HasTrait("CUSTOM_BAR") {
			t.Errorf("%+v", p)
		}
		must(t, stop())
	})
	scenario(t, "an operator's reserved amount survives totals that change", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.placement.change(name1, func(p *provider.Provider) {
			inv := p.Inventories[class]
			inv.Reserved = 1
			p.Inventories = map[resource.Class]resource.Inventory{class: inv}
		})
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		w.until("three VFs are counted", func() bool { return w.total(name1, class) == 3 })
		if w.provider(name1).Inventories[class].Reserved != 1 {
			t.Errorf("%+v", w.provider(name1))
		}
		must(t, stop())
	})
	scenario(t, "without changes nothing is written", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1, name2))
		w.untilPhase(host.Running, "s1")
		time.Sleep(time.Minute)
		writes := w.writes()
		time.Sleep(10 * time.Minute)
		if w.writes() != writes {
			t.Errorf("%d writes", w.writes()-writes)
		}
		must(t, stop())
	})
}

// A device that was claimed and freed (Nova bug 2098496) is unchanged: the two VFs are still counted as two, the next
// guest gets one, and nothing is repaired.
func TestDeviceFreedAndClaimedAgain(t *testing.T) {
	for name, rule := range map[string]string{"by its ids": vfRule,
		"with a class and traits": `{"vendor_id":"8086","product_id":"154c","resource_class":"pci_8086_154c","traits":"a"}`} {
		scenario(t, name, func(t *testing.T, w *testHost) {
			setRules(w, rule)
			a, stop := w.startReported()
			free := func() (n int) {
				for _, d := range a.Report().Devices {
					if d.Provider == string(w.provider(name1).ID) && d.State == "available" && d.ResourceClass == class {
						n++
					}
				}
				return n
			}
			writes := w.writes()
			for _, id := range []string{"s1", "s2"} {
				w.until("two are free", func() bool { return free() == 2 })
				if w.total(name1, class) != 2 {
					t.Errorf("%+v", w.provider(name1))
				}
				w.compute.assign(w.server(id, name1))
				w.untilPhase(host.Running, id)
				if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != id || free() != 1 {
					t.Errorf("%s: %v hold devices, %d are free", id, got, free())
				}
				time.Sleep(3 * time.Minute)
				w.compute.assign()
				w.untilPhase(host.Gone, id)
				w.deleteAllocations(id)
			}
			w.until("two are free again", func() bool { return free() == 2 })
			must(t, stop())
			if w.writes() != writes {
				t.Errorf("%d writes to Placement", w.writes()-writes)
			}
			w.checkConsistent()
		})
	}
}

const secondCardRule = `{"address":"0000:5e:00.1"}`
