package loop

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

const (
	heldVF        = "0000:3b:00.1"
	heldIdentity  = "8086:154c type-VF of " + pf1
	newClass      = "CUSTOM_PCI_8086_1889"
	twoClassRules = `[{"vendor_id":"8086","product_id":"154c"},{"vendor_id":"8086","product_id":"1889"}]`
)

// The ids of a held device change while the host is down, or while the agent runs. The agent starts, keeps the device
// as it was claimed, reports a condition, and serves all other servers. When the holder frees the device, it is
// offered with its present identity.
func TestIDsOfAHeldDeviceChange(t *testing.T) {
	changes := func(list ...func(fstest.MapFS)) []func(fstest.MapFS) { return list }
	const second = "0000:3b:00.2"
	for _, c := range []struct {
		name, rules string
		change      []func(fstest.MapFS)
		is          string                 // the present identity in the condition
		there       string                 // the provider of the device when it is free, if any
		after       map[resource.Class]int // what that provider has then
	}{
		{"another class, beside a VF with the old one", twoClassRules,
			changes(setFile(heldVF, "device", "0x1889")),
			"8086:1889 type-VF of " + pf1, "", nil},
		{"all VFs of the card", twoClassRules,
			changes(setFile(heldVF, "device", "0x1889"), setFile(second, "device", "0x1889")),
			"8086:1889 type-VF of " + pf1, name1, map[resource.Class]int{newClass: 2}},
		{"no rule matches any more", vfRule,
			changes(setFile(heldVF, "vendor", "0x15b3")),
			"15b3:154c type-VF of " + pf1, name1, map[resource.Class]int{class: 1}},
		{"it is for ports now", `[{"product_id":"154c"},{"product_id":"1889","physical_network":"p"}]`,
			changes(setFile(heldVF, "device", "0x1889"), setFile(second, "device", "0x1889")),
			"8086:1889 type-VF of " + pf1, name1, nil},
		{"it is a bridge now", vfRule,
			changes(setFile(heldVF, "class", "0x060400")),
			"8086:154c type-VF of " + pf1 + " class 060400", name1, map[resource.Class]int{class: 1}},
		{"a VF becomes a PF", twoClassRules,
			changes(setFile(heldVF, "device", "0x1889"), setFile(heldVF, "physfn", ""), setFile(heldVF, "sriov_totalvfs", "2")),
			"8086:1889 type-PF", "cmp1_0000:3B:00.1", map[resource.Class]int{newClass: 1}},
		{"a VF becomes plain", vfRule,
			changes(setFile(heldVF, "physfn", "")),
			"8086:154c type-PCI", "cmp1_0000:3B:00.1", map[resource.Class]int{class: 1}},
		{"a VF moves to another PF", vfRule,
			changes(makeVF(heldVF, pf2)),
			"8086:154c type-VF of " + pf2, name2, map[resource.Class]int{class: 3}},
	} {
		for _, how := range []string{"across a restart", "while the agent runs"} {
			scenario(t, c.name+" "+how, func(t *testing.T, w *testHost) {
				setRules(w, c.rules)
				a, stop := w.startReported()
				w.compute.assign(w.server("s1", name1))
				w.untilPhase(host.Running, "s1")
				held := w.provider(name1).ID
				change := func() {
					for _, one := range c.change {
						w.sysfs.change(one)
					}
				}
				if how == "across a restart" {
					must(t, stop())
					change()
					a, stop = w.startReported()
				} else {
					change()
				}
				w.until("the condition", func() bool {
					return strings.Contains(w.compute.conditions(), c.is+" now") ||
						strings.Contains(w.compute.conditions(), "is "+c.is+" now")
				})
				contains(t, w.compute.conditions(), heldVF, c.is, heldIdentity, "server s1", "delete or migrate")
				w.compute.assign(w.server("s1", name1), w.server("s2", name2))
				w.untilPhase(host.Running, "s2")
				time.Sleep(3 * time.Minute)
				if got := w.provider(name1); got.ID != held || got.Inventories[class].Total == 0 || w.allocated("s1", name1,
					class) != 1 || w.holders()[heldVF] != "s1" {
					t.Errorf("not as it was claimed: %+v, holders %v", got, w.holders())
				}
				for _, d := range a.Report().Devices {
					if d.Address == heldVF && (d.Holder != "s1" || d.ProductID != "154c" || d.Type != "type-VF" ||
						d.Provider != string(held)) {
						t.Errorf("reported as %+v", d)
					}
				}
				w.checkConsistent("s1", "s2")
				w.compute.assign(w.server("s2", name2))
				w.untilPhase(host.Gone, "s1")
				w.deleteAllocations("s1")
				w.until("it is offered with its present identity", func() bool {
					got := w.provider(c.there).Inventories
					for class, n := range c.after {
						if got[class].Total != n {
							return false
						}
					}
					return len(got) == len(c.after) || c.there == ""
				})
				if c.there == "" { // two classes of VFs under one PF, also without a holder
					w.until("a condition", func() bool {
						return strings.Contains(w.compute.conditions(),
							"VFs of one PF need one class")
					})
				} else {
					w.until("no condition is left", func() bool {
						return !strings.Contains(w.compute.conditions(),
							"s1")
					})
				}
				must(t, stop())
				w.checkConsistent("s2")
			})
		}
	}
}

// A PF that is held by a guest becomes a VF of another card, whose PF would be offered: neither is offered until
// the guest is gone.
func TestHeldPFBecomesVF(t *testing.T) {
	scenario(t, "after a restart", func(t *testing.T, w *testHost) {
		setRules(w, pfRule)
		_, stop := w.startReported()
		w.compute.assign(w.pfServer("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.sysfs.remove("0000:3b:00.1")
		w.sysfs.remove("0000:3b:00.2")
		w.sysfs.change(setFile(pf1, "device", "0x154c"))
		w.sysfs.change(makeVF(pf1, pf2))
		_, stop = w.startReported()
		contains(t, w.compute.conditions(), pf1+": is 8086:154c type-VF of "+pf2+" now",
			"server s1 holds it as 8086:1572 type-PF", "relatives "+pf2)
		if w.total(name1, pfClass) != 1 || w.allocated("s1", name1, pfClass) != 1 || w.provider(name2).ID != "" {
			t.Errorf("%+v", w.placement.tree())
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("the other PF is offered", func() bool {
			return w.total(name2, pfClass) == 1 && w.provider(name1).ID == "" && w.compute.conditions() == ""
		})
		must(t, stop())
		w.checkConsistent()
	})
}

// A card replaces a used one-time-use card that is held: the new one is not used, and it is offered when the guest is
// gone.
func TestReplacedCard(t *testing.T) {
	scenario(t, "after a restart", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		setRules(w, "["+gpuRule+`,{"vendor_id":"10de"}]`)
		_, stop := w.startReported()
		w.compute.assign(w.gpuServer("s1"))
		w.untilPhase(host.Running, "s1")
		w.until("it is marked used", func() bool { return w.reserved() == 1 })
		must(t, stop())
		w.sysfs.change(setFile(gpuAddress, "vendor", "0x10de"))
		w.sysfs.change(setFile(gpuAddress, "device", "0x1db4"))
		_, stop = w.startReported()
		contains(t, w.compute.conditions(), gpuAddress+": is 10de:1db4 type-PCI now, but server s1 holds it as 8086:20b0 "+
			"type-PCI", gpuName+" keeps "+gpuClass)
		time.Sleep(3 * time.Minute)
		if w.total(gpuName, gpuClass) != 1 || w.reserved() != 1 || len(w.provider(gpuName).Inventories) != 1 ||
			w.allocated("s1", gpuName, gpuClass) != 1 {
			t.Errorf("%+v", w.provider(gpuName))
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("the new card is offered", func() bool {
			inv := w.provider(gpuName).Inventories["CUSTOM_PCI_10DE_1DB4"]
			return inv.Total == 1 && inv.Reserved == 0 && len(w.provider(gpuName).Inventories) == 1 &&
				w.compute.conditions() == ""
		})
		must(t, stop())
		w.checkConsistent()
	})
}

// No guest is started with another device than was claimed for it: it might be a disk of the host.
func TestNoGuestStartsWithAnotherDevice(t *testing.T) {
	scenario(t, "an existing guest stays stopped, with its devices", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Stopped, "s1")
		must(t, stop())
		w.sysfs.change(setFile(heldVF, "device", "0xa80a"))
		_, stop = w.startReported()
		w.compute.assign(s)
		w.untilPhase(host.Refused, "s1")
		contains(t, w.compute.guest("s1").Message, heldVF+" was claimed as "+heldIdentity+" and is 8086:a80a type-VF of "+
			""+pf1+" now", "delete or migrate")
		if g := w.guest("s1"); !g.Stopped || len(g.Devices) != 1 || w.allocated("s1", name1, class) != 1 {
			t.Errorf("%+v", g)
		}
		w.sysfs.change(setFile(heldVF, "device", "0x154c"))
		w.until("the condition is gone", func() bool { return w.compute.conditions() == "" })
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Stopped, "s1")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "a running guest can be stopped", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.sysfs.change(setFile(heldVF, "device", "0xa80a"))
		_, stop = w.startReported()
		w.untilPhase(host.Running, "s1")
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Stopped, "s1")
		must(t, stop())
	})
	scenario(t, "a guest that is not built yet fails, and its device is freed", func(t *testing.T, w *testHost) {
		setRules(w, twoClassRules)
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Unavailable, "not now")
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		must(t, stop())
		w.guests.Fail = nil
		w.sysfs.change(setFile(heldVF, "device", "0x1889"))
		_, stop = w.startReported()
		w.untilPhase(host.Failed, "s1")
		contains(t, w.compute.guest("s1").Message, "was claimed as "+heldIdentity)
		w.deleteAllocations("s1")
		w.compute.assign()
		must(t, stop())
		w.checkConsistent()
	})
}
