package loop

import (
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// disable replaces what the assignments name: the disabled devices, and the ids of those to enable.
func (o *fakeCompute) disable(devices []host.DisabledDevice, enable ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.assignments.DisabledDevices, o.assignments.EnableDevices = devices, nil
	for _, id := range enable {
		o.assignments.EnableDevices = append(o.assignments.EnableDevices, host.EnableDevice{ID: id})
	}
	o.setAssignments(o.assignments.Servers)
	o.wake()
}

// isDisabled returns whether the last report has a device as disabled.
func (o *fakeCompute) isDisabled(address string) bool {
	devices := o.lastReport().Devices
	i := slices.IndexFunc(devices, func(d host.Device) bool { return d.Address == address })
	return i >= 0 && devices[i].Disabled
}

// disabled returns a disablement by an operator.
func disabled(id, address string) host.DisabledDevice {
	return host.DisabledDevice{ID: id, Address: address, Reason: "fan " + id, Since: time.Now()}
}

// vfsReserved returns the reserved amount of the VFs of the first PF.
func (w *testHost) vfsReserved() int { return w.provider(name1).Inventories[class].Reserved }

func TestDisabledDevices(t *testing.T) {
	scenario(t, "a disabled device is refused, its holder keeps it, and it is never offered in between",
		func(t *testing.T, w *testHost) {
			w.addOneTimeDevice()
			setRules(w, `{"vendor_id":"8086","product_id":"20b0","resource_class":"gpu"}`)
			_, stop := w.startReported()
			w.compute.assign(w.gpuServer("s1"))
			w.untilPhase(host.Running, "s1")
			w.compute.disable([]host.DisabledDevice{disabled("d1", gpuAddress)})
			w.until("it is reserved", func() bool { return w.reserved() == 1 && w.compute.isDisabled(gpuAddress) })
			if w.holders()[gpuAddress] != "s1" || w.compute.phase("s1") != host.Running {
				t.Error("the holder lost its device")
			}
			w.compute.assign()
			w.untilPhase(host.Gone, "s1")
			w.deleteAllocations("s1")
			w.compute.assign(w.gpuServer("s2")) // although Placement has it reserved
			w.untilPhase(host.Failed, "s2")
			contains(t, w.compute.guest("s2").Message, "it is disabled: fan d1")
			w.deleteAllocations("s2")
			w.compute.disable(nil, "d1")
			w.until("it is offered again", func() bool { return w.reserved() == 0 && !w.compute.isDisabled(gpuAddress) })
			w.until("an answer", func() bool { return slices.Equal(w.compute.lastReport().EnabledDevices, []string{"d1"}) })
			w.compute.disable(nil)
			w.until("the answer is forgotten", func() bool { return len(w.compute.lastReport().EnabledDevices) == 0 })
			w.compute.assign(w.gpuServer("s3"))
			w.untilPhase(host.Running, "s3")
			must(t, stop())
		})
	scenario(t, "free VFs are reserved, and held ones when they are freed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		held := w.compute.guest("s1").Devices[0].Address
		w.compute.disable([]host.DisabledDevice{disabled("d1", held)})
		w.until("it is disabled", func() bool { return w.compute.isDisabled(held) })
		time.Sleep(2 * time.Minute)
		if w.vfsReserved() != 0 {
			t.Errorf("%d VFs are reserved, and Placement counts the held one already", w.vfsReserved())
		}
		w.compute.assign(w.server("s1", name1), w.server("s2", name1))
		w.untilPhase(host.Running, "s2")
		w.compute.assign(w.server("s2", name1))
		w.untilPhase(host.Gone, "s1")
		w.deleteAllocations("s1")
		w.until("it is reserved", func() bool { return w.vfsReserved() == 1 })
		w.compute.assign(w.server("s2", name1), w.server("s3", name1)) // over the capacity of Placement
		w.untilPhase(host.Failed, "s3")
		contains(t, w.compute.guest("s3").Message, "it is disabled: fan d1")
		must(t, stop())
	})
	scenario(t, "an answer follows when Placement no longer reserves it", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		must(t, stop())
		broken := w.failWrites("PutInventories", w.provider(name1).ID)
		_, stop = w.startReported()
		w.compute.disable([]host.DisabledDevice{disabled("d1", "0000:3b:00.1")})
		w.until("it is reserved", func() bool { return w.vfsReserved() == 1 })
		broken.Store(true)
		w.compute.disable(nil, "d1")
		w.until("it is enabled here", func() bool { return !w.compute.isDisabled("0000:3b:00.1") })
		time.Sleep(2 * time.Minute)
		if list := w.compute.lastReport().EnabledDevices; len(list) > 0 || w.vfsReserved() != 1 {
			t.Errorf("answered %v, %d reserved", list, w.vfsReserved())
		}
		broken.Store(false)
		w.until("an answer", func() bool { return slices.Equal(w.compute.lastReport().EnabledDevices, []string{"d1"}) })
		if w.vfsReserved() != 0 {
			t.Error("it is reserved still")
		}
		must(t, stop())
	})
	scenario(t, "a PF is disabled with its VFs; other clients' reserved amounts stay", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		inv := w.provider(name2).Inventories[class]
		w.changeReserved(name2, 1)
		w.compute.disable([]host.DisabledDevice{disabled("d1", pf1), disabled("d2", "0000:5e:00.1")})
		w.until("all of the one, and one more of the other are reserved", func() bool {
			return w.vfsReserved() == 2 && w.provider(name2).Inventories[class].Reserved == inv.Total
		})
		w.compute.disable(nil, "d1", "d2")
		w.until("only the other client's is left", func() bool {
			return w.vfsReserved() == 0 && w.provider(name2).Inventories[class].Reserved == 1
		})
		must(t, stop())
	})
	scenario(t, "it holds over a restart without compute, and until its time", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		until := disabled("d1", "0000:3b:00.1")
		until.Until = time.Now().Add(time.Hour)
		w.compute.disable([]host.DisabledDevice{until})
		w.until("it is reserved", func() bool { return w.vfsReserved() == 1 })
		must(t, stop())
		w.compute.muteStreams(true)
		_, stop = w.startReported()
		time.Sleep(58 * time.Minute)
		if w.vfsReserved() != 1 || !w.compute.isDisabled(until.Address) {
			t.Error("it was enabled before its time, without compute")
		}
		w.until("it expires", func() bool { return w.vfsReserved() == 0 && !w.compute.isDisabled(until.Address) })
		if early := time.Until(until.Until); early > 0 {
			t.Errorf("it expired %s early", early)
		}
		w.compute.muteStreams(false) // compute's clock is behind: it names the device still
		time.Sleep(2 * time.Minute)
		if w.vfsReserved() != 0 {
			t.Error("an expired disablement came back")
		}
		must(t, stop())
	})
	scenario(t, "it expires while the agent is away", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		until := disabled("d1", "0000:3b:00.1")
		until.Until = time.Now().Add(time.Hour)
		w.compute.disable([]host.DisabledDevice{until})
		w.until("it is reserved", func() bool { return w.vfsReserved() == 1 })
		must(t, stop())
		time.Sleep(2 * time.Hour)
		w.compute.disable(nil)
		_, stop = w.startReported()
		w.until("it is offered", func() bool { return w.vfsReserved() == 0 && !w.compute.isDisabled(until.Address) })
		w.until("the journal lacks it", func() bool { return len(w.journalled().Disabled()) == 0 })
		must(t, stop())
	})
	scenario(t, "a line that lacks it changes nothing, as of a restored database", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.disable([]host.DisabledDevice{disabled("d1", "0000:3b:00.1")})
		w.until("it is reserved", func() bool { return w.vfsReserved() == 1 })
		w.compute.disable(nil)
		time.Sleep(5 * time.Minute)
		if list := w.compute.lastReport().DisabledDevices; w.vfsReserved() != 1 || len(list) != 1 || list[0].ID != "d1" {
			t.Errorf("%d reserved, reported %+v", w.vfsReserved(), list)
		}
		again := disabled("d2", "0000:3b:00.1")
		w.compute.disable([]host.DisabledDevice{again})
		w.until("the other replaces it", func() bool {
			list := w.compute.lastReport().DisabledDevices
			return len(list) == 1 && list[0].ID == "d2" && list[0].Reason == again.Reason
		})
		must(t, stop())
	})
	scenario(t, "a device that vanishes and returns is disabled still", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		setRules(w, `{"vendor_id":"8086","product_id":"20b0","resource_class":"gpu"}`)
		_, stop := w.startReported()
		w.compute.disable([]host.DisabledDevice{disabled("d1", gpuAddress)})
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		w.sysfs.remove(gpuAddress)
		w.until("its provider is gone", func() bool { return w.provider(gpuName).ID == "" })
		w.until("nothing is reserved", func() bool { return len(w.journalled().Reserved()) == 0 })
		w.sysfs.add(gpuAddress, "20b0", "")
		w.until("it is back", func() bool { return w.provider(gpuName).ID != "" && w.compute.isDisabled(gpuAddress) })
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		must(t, stop())
	})
	scenario(t, "devices that vanish while Placement has an allocation of them", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.disable([]host.DisabledDevice{disabled("d1", "0000:3b:00.1")})
		w.until("it is reserved", func() bool { return w.vfsReserved() == 1 })
		w.placement.set("unknown", w.provider(name1).ID, resource.Amounts{class: 1})
		for _, address := range []string{"0000:3b:00.1", "0000:3b:00.2", pf1} {
			w.sysfs.remove(address)
		}
		w.until("they are gone", func() bool { return len(w.compute.lastReport().Devices) == 2 })
		time.Sleep(2 * time.Minute)
		w.sysfs.add(pf1, "1572", "")
		w.sysfs.add("0000:3b:00.1", "154c", pf1)
		w.sysfs.add("0000:3b:00.2", "154c", pf1)
		w.until("they are back", func() bool { return len(w.compute.lastReport().Devices) == 4 })
		time.Sleep(2 * time.Minute)
		if w.vfsReserved() != 1 {
			t.Errorf("%d are reserved", w.vfsReserved())
		}
		must(t, stop())
	})
	scenario(t, "a used device for one-time use stays used", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		_, stop := w.startReported()
		w.reserve(1) // as by an agent of Nova, for a device that was used
		w.until("it is used", w.spent)
		w.compute.disable([]host.DisabledDevice{disabled("d1", gpuAddress)})
		w.until("it is disabled", func() bool { return w.compute.isDisabled(gpuAddress) })
		time.Sleep(2 * time.Minute)
		w.compute.disable(nil, "d1")
		w.until("it is enabled", func() bool { return !w.compute.isDisabled(gpuAddress) })
		time.Sleep(2 * time.Minute)
		if w.reserved() != 1 || !w.spent() {
			t.Error("it was released without being cleaned")
		}
		must(t, stop())
	})
	scenario(t, "a device that is not used does not count as used while it is disabled", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		_, stop := w.startReported()
		w.compute.disable([]host.DisabledDevice{disabled("d1", gpuAddress)})
		w.until("it is reserved", func() bool { return w.reserved() == 1 })
		time.Sleep(2 * time.Minute)
		if w.spent() {
			t.Error("it counts as used")
		}
		w.compute.disable(nil, "d1")
		w.until("it is offered", func() bool { return w.reserved() == 0 })
		must(t, stop())
	})
}

// Enabling also releases what a lost journal or a restored Placement has left.
func TestEnablingReleasesReservedDevices(t *testing.T) {
	enable := func(w *testHost, id, address string) {
		w.compute.mu.Lock()
		defer w.compute.mu.Unlock()
		w.compute.assignments.EnableDevices = []host.EnableDevice{{ID: id, Address: address}}
		w.compute.setAssignments(nil)
		w.compute.wake()
	}
	scenario(t, "of VFs, except those that are still disabled", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.disable([]host.DisabledDevice{disabled("d1", "0000:3b:00.1")})
		w.until("it is reserved", func() bool { return w.vfsReserved() == 1 })
		w.changeReserved(name1, 2) // as after a restored Placement
		time.Sleep(2 * time.Minute)
		if w.vfsReserved() != 2 {
			t.Errorf("%d are reserved without a request", w.vfsReserved())
		}
		enable(w, "e1", pf1)
		w.until("one stays", func() bool { return w.vfsReserved() == 1 })
		w.until("an answer", func() bool { return slices.Equal(w.compute.lastReport().EnabledDevices, []string{"e1"}) })
		must(t, stop())
	})
	scenario(t, "not of a device for one-time use", func(t *testing.T, w *testHost) {
		w.addOneTimeDevice()
		_, stop := w.startReported()
		w.reserve(1)
		w.until("it is used", w.spent)
		enable(w, "e1", gpuAddress)
		w.until("an answer", func() bool { return slices.Equal(w.compute.lastReport().EnabledDevices, []string{"e1"}) })
		time.Sleep(2 * time.Minute)
		if w.reserved() != 1 || !w.spent() {
			t.Error("it was released without being cleaned")
		}
		must(t, stop())
	})
}

// changeReserved sets the reserved amount of a provider, as another client does.
func (w *testHost) changeReserved(name string, n int) {
	w.placement.change(name, func(p *provider.Provider) {
		inventories := make(map[resource.Class]resource.Inventory, len(p.Inventories))
		for class, inv := range p.Inventories {
			inv.Reserved = n
			inventories[class] = inv
		}
		p.Inventories = inventories
	})
}

// A held device is claimed by its holder once more, as after a restart of the build.
func TestDisabledDeviceOfUnfinishedBuild(t *testing.T) {
	scenario(t, "a build in progress keeps its device", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		incoming := w.server("s1", name1)
		incoming.Incoming = true
		w.compute.assign(incoming)
		w.untilPhase(host.Claimed, "s1")
		held := w.compute.guest("s1").Devices[0].Address
		w.compute.disable([]host.DisabledDevice{disabled("d1", held)})
		w.until("it is disabled", func() bool { return w.compute.isDisabled(held) })
		must(t, stop())
		_, stop = w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		if w.holders()[held] != "s1" {
			t.Errorf("its devices: %v", w.holders())
		}
		if e := w.journalled().Claims(); len(e) != 1 || e[0].State != pci.Allocated {
			t.Errorf("%+v", e)
		}
		must(t, stop())
	})
}
