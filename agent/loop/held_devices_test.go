package loop

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// wholePF is a server with a PF.
func (w *testHost) wholePF(id, name string) host.Server {
	s, p := w.want(id), w.provider(name)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "pf", Count: 1, Class: pfOf, VendorID: "8086", ProductID: "1572",
		Type: "type-PF", Providers: []string{string(p.ID)}}}
	w.placement.set(resource.ConsumerID(id), p.ID, resource.Amounts{pfOf: 1})
	return s
}

// Rows of 7.1 about a PF that a guest holds.
func TestHeldPF(t *testing.T) {
	held := func(w *testHost) (stop func() error, view provider.Provider) {
		rules(w, pfRule)
		_, stop = w.begin()
		w.compute.assign(w.wholePF("s1", name1))
		w.untilPhase(host.Running, "s1")
		return stop, w.provider(name1)
	}
	same := func(w *testHost, view provider.Provider) {
		w.t.Helper()
		if p := w.provider(name1); p.ID != view.ID || !maps.Equal(p.Inventories, view.Inventories) ||
			!slices.Equal(p.Traits, view.Traits) || w.total(name1, pfOf) != 1 {
			w.t.Errorf("%+v, before %+v", p, view)
		}
	}
	scenario(t, "its rule is removed", func(t *testing.T, w *testHost) {
		stop, view := held(w)
		stop = w.restart(stop, `{"vendor_id":"ffff"}`)
		for range 3 {
			same(w, view)
			contains(t, w.compute.conditions(), pf1, "s1", "until the server is gone")
			time.Sleep(time.Minute)
		}
		if w.provider(name2).ID != "" {
			t.Error("the other PF, which is free, is still there")
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		if w.share("s1", name1, pfOf) != 1 {
			t.Error("the agent took the allocation away")
		}
		w.free("s1")
		w.until("it is gone", func() bool { return w.provider(name1).ID == "" && w.compute.conditions() == "" })
		stop = w.restart(stop, `{"vendor_id":"ffff"}`)
		if w.provider(name1).ID != "" || w.compute.conditions() != "" {
			t.Errorf("%+v %q", w.provider(name1), w.compute.conditions())
		}
		must(t, stop())
		w.consistent()
	})
	scenario(t, "the configuration turns to its VFs", func(t *testing.T, w *testHost) {
		stop, view := held(w)
		must(t, stop())
		writes := w.writes()
		rules(w, vfRule)
		contains(t, w.refusedStart(fault.Invalid), "0000:3b:00.1", "server s1 holds its PF "+pf1)
		if w.writes() != writes {
			t.Errorf("%d writes", w.writes()-writes)
		}
		same(w, view)
		rules(w, pfRule)
		_, stop = w.begin()
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "the host reports it no more", func(t *testing.T, w *testHost) {
		stop, view := held(w)
		w.sysfs.remove(pf1)
		stop = w.restart(stop, pfRule)
		for range 3 {
			same(w, view)
			contains(t, w.compute.conditions(), pf1, "s1")
			time.Sleep(time.Minute)
		}
		must(t, stop())
		w.consistent("s1")
	})
}

// The tag managed of device_spec is passed to the hypervisor with the device; the default is yes. It does not change
// while a guest holds the device.
func TestManaged(t *testing.T) {
	device := func(w *testHost) (d hypervisor.Device) {
		w.t.Helper()
		if list := w.guest("s1").Devices; len(list) == 1 && list[0].ID.String() == "0000:3b:00.1" {
			return list[0]
		}
		w.t.Fatalf("%+v", w.guest("s1"))
		return d
	}
	for tag, unmanaged := range map[string]bool{"": false, `,"managed":"yes"`: false, `,"managed":"no"`: true} {
		scenario(t, tag, func(t *testing.T, w *testHost) {
			rules(w, strings.TrimSuffix(vfRule, "}")+tag+"}")
			_, stop := w.begin()
			w.compute.assign(w.want("s1", name1))
			w.untilPhase(host.Running, "s1")
			if d := device(w); d.Unmanaged != unmanaged {
				t.Errorf("%+v", d)
			}
			must(t, stop())
		})
	}
	scenario(t, "the tag is dropped while a guest has the device", func(t *testing.T, w *testHost) {
		rules(w, strings.TrimSuffix(vfRule, "}")+`,"managed":false,"live_migratable":true}`)
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		stop = w.restart(stop, vfRule)
		s.Build = 1 // the guest is built anew with what it has
		w.compute.assign(s)
		w.until("it is built anew", func() bool { return w.compute.guest("s1").Build == 1 })
		if d := device(w); !d.Unmanaged {
			t.Errorf("%+v", d)
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.free("s1")
		w.compute.forget()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		if d := device(w); d.Unmanaged {
			t.Errorf("%+v", d)
		}
		must(t, stop())
	})
}

// A live_migratable rule refuses the start when the hypervisor cannot live-migrate guests with devices.
func TestLiveMigratableOnOldHypervisor(t *testing.T) {
	scenario(t, "live-migratable devices are refused", func(t *testing.T, w *testHost) {
		guests, err := fake.New(w.dir+"/old", hypervisor.Capacity{VCPUs: 8, MemoryMB: 1024, DiskGB: 10,
			NoLive: "QEMU is older than 8.2.2"})
		must(t, err)
		w.guests, w.options.Hypervisor = guests, guests
		rules(w, strings.TrimSuffix(vfRule, "}")+`,"live_migratable":true}`)
		contains(t, w.refusedStart(fault.Invalid), "live_migratable", "QEMU is older than 8.2.2")
		if w.writes() != 0 {
			t.Errorf("%d writes", w.writes())
		}
		rules(w, strings.TrimSuffix(vfRule, "}")+`,"live_migratable":false}`) // that is so anyway
		_, stop := w.begin()
		must(t, stop())
	})
}

// Syncs at the end of an evacuation free nothing, neither at the destination nor at the source.
func TestSyncDuringEvacuation(t *testing.T) {
	scenario(t, "the destination", func(t *testing.T, w *testHost) {
		slow := make(chan struct{})
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				<-slow
			}
			return nil
		}
		a, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		writes := w.writes()
		for range 10 {
			time.Sleep(time.Minute) // a look
			if got := w.journalled().Claims(); len(got) != 1 || w.share("s1", name1, class) != 1 || w.writes() != writes {
				t.Errorf("%+v, %d writes", got, w.writes()-writes)
			}
			for _, d := range a.Report().Devices {
				if d.Address == "0000:3b:00.1" && (d.State != "claimed" || d.Holder != "s1") {
					t.Errorf("%+v", d)
				}
			}
		}
		close(slow)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "the source", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		m := off(w.moved(s, "m1")) // while the host was down: the migration has what was here, the server something elsewhere
		w.placement.SetAllocation("s1", resource.Allocation{"elsewhere": {"VCPU": 1}})
		w.compute.forget()
		w.compute.assign(m)
		_, stop = w.begin()
		w.untilPhase(host.Stopped, "m1")
		writes := w.writes()
		time.Sleep(10 * time.Minute)
		if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != "m1" || w.share("m1", name1, class) != 1 ||
			w.writes() != writes ||
			len(w.placement.Held("s1")) != 1 {
			t.Errorf("%v, %v, %d writes", got, w.placement.all(), w.writes()-writes)
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "m1")
		must(t, stop())
		w.consistent()
	})
}

// The report has the provider of each device by its ID in Placement, also for a provider that existed before the
// agent. A sync without changes reports nothing. A later VF has the same provider.
func TestDevicesReportTheirProviders(t *testing.T) {
	scenario(t, "providers of devices and of a later VF", func(t *testing.T, w *testHost) {
		const old = "33333333-3333-4333-8333-333333333333"
		w.placement.setTree(provider.Provider{ID: rootID, Name: "cmp1"},
			provider.Provider{ID: old, Name: name1, Parent: rootID,
				Traits: []resource.Trait{"COMPUTE_MANAGED_PCI_DEVICE"}})
		rules(w,
			`[{"address":"0000:3b:00.*","product_id":"154c"},{"address":"0000:5e:00.0","product_id":"1572","physical_network":"p"}]`)
		a, stop := w.begin()
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		w.until("three", func() bool { return w.total(name1, class) == 3 })
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

// A refused reshape ends the start, and is a condition of a running agent.
func TestReshapeRefused(t *testing.T) {
	refuses := func(call string) error {
		if call == "Reshape" {
			return fault.New(fault.Invalid, "test", "no such consumer type")
		}
		return nil
	}
	scenario(t, "when reporting is switched on", func(t *testing.T, w *testHost) {
		w.options.ReportInPlacement = false
		_, stop := w.begin()
		w.compute.assign(w.legacy("s1", 1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.options.ReportInPlacement, w.placement.fail = true, refuses
		_, stop = w.begin() // no share is written before compute has confirmed the server, so the start is not refused
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no such consumer type") })
		must(t, stop())
		w.placement.fail = nil
		_, stop = w.begin()
		w.until("healed", func() bool { return w.share("s1", name1, class)+w.share("s1", name2, class) == 1 })
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "later", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.placement.fail = refuses
		_, stop = w.begin()
		w.deleteAllocation("s1", name1)
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no such consumer type") })
		w.compute.assign(w.want("s2", name2), host.Server{ID: "s1", Requests: w.want("s1", name1).Requests})
		w.untilPhase(host.Running, "s2")
		must(t, stop())
	})
}

// A guest that ran with the device has used it, also when its resize is reverted; one that was only expected has not.
func TestRevertedResize(t *testing.T) {
	scenario(t, "it ran", func(t *testing.T, w *testHost) {
		w.once()
		_, stop := w.begin()
		s := w.want("s1")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := off(w.moved(s, "m1"))
		w.compute.forget()
		w.compute.assign(m, w.gpu2("s1"))
		w.untilPhase(host.Stopped, "m1")
		w.untilPhase(host.Running, "s1")
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		w.revertResize(s, m)
		time.Sleep(3 * time.Minute)
		if len(w.holders()) != 0 || w.reserved() != 1 || !w.spent() {
			t.Errorf("%v, %+v", w.holders(), w.provider(gpuName))
		}
		must(t, stop())
	})
	scenario(t, "it never came", func(t *testing.T, w *testHost) {
		w.once()
		_, stop := w.begin()
		s := w.gpu("s1")
		s.Incoming = true
		w.compute.assign(s)
		w.untilPhase(host.Claimed, "s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.free("s1")
		time.Sleep(3 * time.Minute)
		if w.reserved() != 0 || w.spent() {
			t.Errorf("%+v", w.provider(gpuName))
		}
		must(t, stop())
	})
}

// gpu2 is gpu as the resized server asks for it.
func (w *testHost) gpu2(id string) host.Server {
	s := w.gpu(id)
	s.Requests[0].ID = "r-new"
	return s
}

// Without reporting devices are claimed as before: also those of a physical network, and either a PF or its VFs.
func TestLegacyTracking(t *testing.T) {
	pf := func(w *testHost, id string) host.Server {
		s := w.legacy(id, 1)
		s.Requests[0].Alias, s.Requests[0].Class, s.Requests[0].ProductID, s.Requests[0].Type = "pf", pfOf, "1572", "type-PF"
		return s
	}
	scenario(t, "physical_network", func(t *testing.T, w *testHost) {
		w.options.ReportInPlacement = false
		rules(w, strings.TrimSuffix(vfRule, "}")+`,"physical_network":"physnet1"}`)
		_, stop := w.begin()
		w.compute.assign(w.legacy("s1", 2))
		w.untilPhase(host.Running, "s1")
		if len(w.holders()) != 2 {
			t.Errorf("%v", w.holders())
		}
		must(t, stop())
		w.consistent("s1")
	})
	for row, order := range map[string][2]func(*testHost, string) host.Server{
		"a PF, then one of its VFs": {pf, func(w *testHost, id string) host.Server { return w.legacy(id, 1) }},
		"a VF, then its PF":         {func(w *testHost, id string) host.Server { return w.legacy(id, 1) }, pf},
	} {
		scenario(t, row, func(t *testing.T, w *testHost) {
			w.options.ReportInPlacement = false
			rules(w, `[{"product_id":"1572","address":"0000:3b:00.0"},{"product_id":"154c","address":"0000:3b:00.*"}]`)
			_, stop := w.begin()
			first := order[0](w, "s1")
			w.compute.assign(first)
			w.untilPhase(host.Running, "s1")
			w.compute.assign(first, order[1](w, "s2"))
			w.untilPhase(host.Failed, "s2")
			contains(t, w.compute.guest("s2").Message, "is unavailable because s1 holds")
			must(t, stop())
			w.consistent("s1")
		})
	}
}
