package loop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

func TestObservationFreesNothing(t *testing.T) {
	scenario(t, "a claim without guest waits for compute's confirmation", func(t *testing.T, w *testHost) {
		a, stop := w.startReported()
		j, err := a.state.Devices().At(device.PCI(pci.Address{Bus: 0x3b, Func: 1}))
		if !err {
			t.Fatal("no device")
		}
		must(t, stop())
		opened, fail := journal.Open(w.options.Dir)
		must(t, fail)
		set, claims, refusal := a.state.Devices().Claim("s9", pci.Request{ID: "r", Count: 1,
			Providers:   []resource.ProviderID{j.Provider},
			Requirement: pci.Requirement{Type: pci.Virtual}})
		if refusal != "" || set.Len() != 4 {
			t.Fatal(refusal)
		}
		must(t, opened.Write(journal.Put("s9", claims)))
		must(t, opened.Close())
		w.compute.muteStreams(true)
		_, stop = w.startReported()
		time.Sleep(10 * time.Minute)
		if got := w.journalled().Servers(); !slices.Equal(got, []string{"s9"}) {
			t.Errorf("the journal has %v", got)
		}
		w.compute.muteStreams(false)
		w.untilPhase(host.Gone, "s9")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "a vanished device stays claimed, also in Placement", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.sysfs.remove("0000:3b:00.1")
		w.sysfs.remove("0000:3b:00.2")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "0000:3b:00.1") })
		if p := w.provider(name1); p.Inventories[class].Total != 1 {
			t.Errorf("%+v", p)
		}
		must(t, stop())
		_, stop = w.startReported() // only the journal has the device now
		w.untilPhase(host.Running, "s1")
		if p := w.provider(name1); p.Inventories[class].Total != 1 {
			t.Errorf("after the restart: %+v", p)
		}
		w.placement.remove("s1")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		w.until("the provider is deleted with its last holder", func() bool { return w.provider(name1).ID == "" })
		must(t, stop())
	})
	scenario(t, "an unreadable device does not count as removed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.sysfs.makeUnreadable("0000:5e:00.1")
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "0000:5e:00.1") })
		if p := w.provider(name2); p.Inventories[class].Total != 2 {
			t.Errorf("%+v", p)
		}
		w.sysfs.remove("0000:5e:00.1")
		w.until("it is gone", func() bool { return w.provider(name2).Inventories[class].Total == 1 })
		must(t, stop())
	})
	scenario(t, "an agent without a journal restores the claims of guests", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1, name2))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.forgetJournal()
		w.compute.assign(w.server("s1", name1, name2), w.server("s2", name1))
		_, stop = w.startReported()
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.checkConsistent("s1", "s2")
		if id, _ := w.journalled().Identity(); id.Provider != rootID {
			t.Errorf("%+v", id)
		}
	})
	scenario(t, "a guest keeps a device that the journal has for another server", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		opened, err := journal.Open(w.options.Dir)
		must(t, err)
		claims, _ := opened.State().Of("s1")
		must(t, opened.Write(journal.Put("s2", claims)))
		must(t, opened.Close())
		w.compute.assign(w.server("s1", name1), w.server("s2", name1))
		w.compute.muteStreams(true) // until compute sends assignments, s2 has no other device
		_, stop = w.startReported()
		w.until("a condition", func() bool {
			return strings.Contains(w.compute.conditions(), "0000:3b:00.1: the journal gives it to server s2")
		})
		w.compute.muteStreams(false)
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.checkConsistent("s1", "s2")
	})
}

// A guest of the hypervisor holds a device that the journal does not have and device_spec no longer offers.
func TestUnknownDeviceOfAGuest(t *testing.T) {
	scenario(t, "it is held and does not prevent reporting", func(t *testing.T, w *testHost) {
		must(t, w.guests.Build(t.Context(), hypervisor.Guest{ID: "s1",
			Devices: []hypervisor.Device{{ID: device.PCI(pci.Address{Bus: 9}), Request: "r"}}}))
		w.compute.assign(host.Server{ID: "s1"})
		_, stop := w.startReported()
		w.untilPhase(host.Running, "s1")
		contains(t, w.compute.conditions(), "0000:09:00.0", "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
}
