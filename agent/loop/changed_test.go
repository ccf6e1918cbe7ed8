package loop

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

const (
	heldVF  = "0000:3b:00.1"
	heldIs  = "8086:154c type-VF of " + pf1
	newOf   = "CUSTOM_PCI_8086_1889"
	twoKind = `[{"vendor_id":"8086","product_id":"154c"},{"vendor_id":"8086","product_id":"1889"}]`
)

// set changes a file of a device, or removes it where text is empty.
func set(address, file, text string) func(fstest.MapFS) {
	name := "bus/pci/devices/" + address + "/" + file
	return func(t fstest.MapFS) {
		if delete(t, name); text != "" {
			t[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
}

// linked makes a device a VF of a PF.
func linked(address, pf string) func(fstest.MapFS) {
	return func(t fstest.MapFS) {
		set(address, "sriov_totalvfs", "")(t)
		t["bus/pci/devices/"+address+"/physfn"] = &fstest.MapFile{Data: []byte("../" + pf), Mode: fs.ModeSymlink}
	}
}

// The ids of a held device change while the host is down, or while the agent runs. The agent starts, keeps the device
// as it was claimed, reports a condition, and serves everything else. When the holder frees the device, it is offered
// as it is.
func TestIDsOfAHeldDeviceChange(t *testing.T) {
	changes := func(list ...func(fstest.MapFS)) []func(fstest.MapFS) { return list }
	const second = "0000:3b:00.2"
	for _, c := range []struct {
		name, rules string
		change      []func(fstest.MapFS)
		is          string                 // what the condition says that it is now
		there       string                 // the provider that counts it when it is free, if any
		after       map[resource.Class]int // what that provider has then
	}{
		{"another class, beside a VF with the old one", twoKind,
			changes(set(heldVF, "device", "0x1889")),
			"8086:1889 type-VF of " + pf1, "", nil},
		{"all VFs of the card", twoKind,
			changes(set(heldVF, "device", "0x1889"), set(second, "device", "0x1889")),
			"8086:1889 type-VF of " + pf1, name1, map[resource.Class]int{newOf: 2}},
		{"no rule matches any more", vfRule,
			changes(set(heldVF, "vendor", "0x15b3")),
			"15b3:154c type-VF of " + pf1, name1, map[resource.Class]int{class: 1}},
		{"it is for ports now", `[{"product_id":"154c"},{"product_id":"1889","physical_network":"p"}]`,
			changes(set(heldVF, "device", "0x1889"), set(second, "device", "0x1889")),
			"8086:1889 type-VF of " + pf1, name1, nil},
		{"it is a bridge now", vfRule,
			changes(set(heldVF, "class", "0x060400")),
			"8086:154c type-VF of " + pf1 + " class 060400", name1, map[resource.Class]int{class: 1}},
		{"a VF becomes a PF", twoKind,
			changes(set(heldVF, "device", "0x1889"), set(heldVF, "physfn", ""), set(heldVF, "sriov_totalvfs", "2")),
			"8086:1889 type-PF", "cmp1_0000:3B:00.1", map[resource.Class]int{newOf: 1}},
		{"a VF becomes plain", vfRule,
			changes(set(heldVF, "physfn", "")),
			"8086:154c type-PCI", "cmp1_0000:3B:00.1", map[resource.Class]int{class: 1}},
		{"a VF moves to another PF", vfRule,
			changes(linked(heldVF, pf2)),
			"8086:154c type-VF of " + pf2, name2, map[resource.Class]int{class: 3}},
	} {
		for _, how := range []string{"across a restart", "while the agent runs"} {
			scenario(t, c.name+" "+how, func(t *testing.T, w *testHost) {
				rules(w, c.rules)
				a, stop := w.begin()
				w.compute.assign(w.want("s1", name1))
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
					a, stop = w.begin()
				} else {
					change()
				}
				w.until("the condition", func() bool {
					return strings.Contains(w.compute.conditions(), c.is+" now") ||
						strings.Contains(w.compute.conditions(), "is "+c.is+" now")
				})
				contains(t, w.compute.conditions(), heldVF, c.is, heldIs, "server s1", "delete or migrate")
				w.compute.assign(w.want("s1", name1), w.want("s2", name2))
				w.untilPhase(host.Running, "s2")
				time.Sleep(3 * time.Minute)
				if got := w.provider(name1); got.ID != held || got.Inventories[class].Total == 0 || w.share("s1", name1,
					class) != 1 || w.holders()[heldVF] != "s1" {
					t.Errorf("not as it was claimed: %+v, holders %v", got, w.holders())
				}
				for _, d := range a.Report().Devices {
					if d.Address == heldVF && (d.Holder != "s1" || d.ProductID != "154c" || d.Type != "type-VF" ||
						d.Provider != string(held)) {
						t.Errorf("reported as %+v", d)
					}
				}
				w.consistent("s1", "s2")
				w.compute.assign(w.want("s2", name2))
				w.untilPhase(host.Gone, "s1")
				w.free("s1")
				w.until("it is offered as what it is", func() bool {
					got := w.provider(c.there).Inventories
					for class, n := range c.after {
						if got[class].Total != n {
							return false
						}
					}
					return len(got) == len(c.after) || c.there == ""
				})
				if c.there == "" { // that is a matter of VFs with two classes, whoever holds them
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
				w.consistent("s2")
			})
		}
	}
}

// A PF that is held by a guest turns into a VF of another card, whose PF would be offered: neither is offered until
// the guest is gone.
func TestHeldPFBecomesVF(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		rules(w, pfRule)
		_, stop := w.begin()
		w.compute.assign(w.wholePF("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.sysfs.remove("0000:3b:00.1")
		w.sysfs.remove("0000:3b:00.2")
		w.sysfs.change(set(pf1, "device", "0x154c"))
		w.sysfs.change(linked(pf1, pf2))
		_, stop = w.begin()
		contains(t, w.compute.conditions(), pf1+": is 8086:154c type-VF of "+pf2+" now",
			"server s1 holds it as 8086:1572 type-PF", "relatives "+pf2)
		if w.total(name1, pfOf) != 1 || w.share("s1", name1, pfOf) != 1 || w.provider(name2).ID != "" {
			t.Errorf("%+v", w.placement.tree())
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.free("s1")
		w.until("the other PF is offered", func() bool {
			return w.total(name2, pfOf) == 1 && w.provider(name1).ID == "" && w.compute.conditions() == ""
		})
		must(t, stop())
		w.consistent()
	})
}

// A card replaces a used one-time-use card that is held: the new one is not used, and it is offered when the guest is
// gone.
func TestReplacedCard(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		w.once()
		rules(w, "["+gpuRule+`,{"vendor_id":"10de"}]`)
		_, stop := w.begin()
		w.compute.assign(w.gpu("s1"))
		w.untilPhase(host.Running, "s1")
		w.until("it is spent", func() bool { return w.reserved() == 1 })
		must(t, stop())
		w.sysfs.change(set(gpuAt, "vendor", "0x10de"))
		w.sysfs.change(set(gpuAt, "device", "0x1db4"))
		_, stop = w.begin()
		contains(t, w.compute.conditions(), gpuAt+": is 10de:1db4 type-PCI now, but server s1 holds it as 8086:20b0 "+
			"type-PCI", gpuName+" keeps "+gpuClass)
		time.Sleep(3 * time.Minute)
		if w.total(gpuName, gpuClass) != 1 || w.reserved() != 1 || len(w.provider(gpuName).Inventories) != 1 ||
			w.share("s1", gpuName, gpuClass) != 1 {
			t.Errorf("%+v", w.provider(gpuName))
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.free("s1")
		w.until("the new card is offered", func() bool {
			inv := w.provider(gpuName).Inventories["CUSTOM_PCI_10DE_1DB4"]
			return inv.Total == 1 && inv.Reserved == 0 && len(w.provider(gpuName).Inventories) == 1 &&
				w.compute.conditions() == ""
		})
		must(t, stop())
		w.consistent()
	})
}

// A held device whose directory has no vendor is unreadable. It did not vanish, and it stays held.
func TestHeldDeviceIsUnreadable(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		check := func(when string, total int) {
			t.Helper()
			text := w.compute.conditions()
			contains(t, text, heldVF+": vendor is missing, so the device is unreadable")
			if strings.Contains(text, "vanished") || strings.Contains(text, "no longer on the host") || w.total(name1,
				class) != total || w.share("s1", name1, class) != 1 || w.holders()[heldVF] != "s1" {
				t.Errorf("%s: %+v\n%s", when, w.provider(name1), text)
			}
		}
		w.sysfs.change(set(heldVF, "vendor", ""))
		w.until("a condition", func() bool { return w.compute.conditions() != "" })
		check("while the agent runs", 2)
		must(t, stop())
		plan, err := w.agent().Plan(t.Context())
		must(t, err)
		contains(t, strings.Join(plan.Notes, "\n"), heldVF+": vendor is missing, so the device is unreadable",
			heldVF+": is held by server s1, though the host cannot read it now")
		_, stop = w.begin()
		check("after a restart", 2)
		contains(t, w.compute.conditions(), heldVF+": is held by server s1, though the host cannot read it now")
		w.consistent("s1")
		w.sysfs.change(set(heldVF, "vendor", "0x8086"))
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		if w.total(name1, class) != 2 {
			t.Errorf("%+v", w.provider(name1))
		}
		must(t, stop())
		w.consistent("s1")
	})
}

// Problems with NUMA nodes, and with the NUMA nodes of devices, are conditions of the host.
func TestWarningsAreConditions(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		w.numaNodes()
		for _, one := range []func(fstest.MapFS){set("0000:5e:00.0", "numa_node", ""), set("0000:5e:00.0",
			"sriov_vf_device", " "),
			func(t fstest.MapFS) { delete(t, "devices/system/node/node1/meminfo") }} {
			w.sysfs.change(one)
		}
		_, stop := w.begin()
		contains(t, w.compute.conditions(), "0000:5e:00.0: numa_node is missing: the node is taken as unknown; ",
			"node1: meminfo is missing: ",
			`0000:5e:00.0: sriov_vf_device "" is not a number: the product_id of its VFs is taken from the VFs that `+
				`exist; `)
		must(t, stop())
	})
}

// No guest is started with another device than was claimed for it: it might be a disk of the host.
func TestNoGuestStartsWithAnotherDevice(t *testing.T) {
	scenario(t, "an existing guest stays stopped, with its devices", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(off(s))
		w.untilPhase(host.Stopped, "s1")
		must(t, stop())
		w.sysfs.change(set(heldVF, "device", "0xa80a"))
		_, stop = w.begin()
		w.compute.assign(s)
		w.untilPhase(host.Refused, "s1")
		contains(t, w.compute.guest("s1").Message, heldVF+" was claimed as "+heldIs+" and is 8086:a80a type-VF of "+
			""+pf1+" now", "delete or migrate")
		if g := w.guest("s1"); !g.Stopped || len(g.Devices) != 1 || w.share("s1", name1, class) != 1 {
			t.Errorf("%+v", g)
		}
		w.sysfs.change(set(heldVF, "device", "0x154c"))
		w.until("the condition is gone", func() bool { return w.compute.conditions() == "" })
		w.compute.assign(off(s))
		w.untilPhase(host.Stopped, "s1")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.consistent("s1")
	})
	scenario(t, "a running guest can be stopped", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.sysfs.change(set(heldVF, "device", "0xa80a"))
		_, stop = w.begin()
		w.untilPhase(host.Running, "s1")
		w.compute.assign(off(s))
		w.untilPhase(host.Stopped, "s1")
		must(t, stop())
	})
	scenario(t, "a guest that is not built yet fails, and its device is freed", func(t *testing.T, w *testHost) {
		rules(w, twoKind)
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				return fault.New(fault.Unavailable, "test", "not now")
			}
			return nil
		}
		_, stop := w.begin()
		w.compute.assign(w.want("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		must(t, stop())
		w.guests.Fail = nil
		w.sysfs.change(set(heldVF, "device", "0x1889"))
		_, stop = w.begin()
		w.untilPhase(host.Failed, "s1")
		contains(t, w.compute.guest("s1").Message, "was claimed as "+heldIs)
		w.free("s1")
		w.compute.assign()
		must(t, stop())
		w.consistent()
	})
}
