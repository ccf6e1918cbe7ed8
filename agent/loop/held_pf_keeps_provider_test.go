package loop

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// A PF that a guest holds keeps its provider when its rule or the PF itself is removed; a rule for its VFs refuses the
// start.
func TestHeldPF(t *testing.T) {
	held := func(w *testHost) (stop func() error, view provider.Provider) {
		setRules(w, pfRule)
		_, stop = w.startReported()
		w.compute.assign(w.pfServer("s1", name1))
		w.untilPhase(host.Running, "s1")
		return stop, w.provider(name1)
	}
	same := func(w *testHost, view provider.Provider) {
		w.t.Helper()
		if p := w.provider(name1); p.ID != view.ID || !maps.Equal(p.Inventories, view.Inventories) ||
			!slices.Equal(p.Traits, view.Traits) || w.total(name1, pfClass) != 1 {
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
			t.Error("the provider of the other PF, which is free, is not deleted")
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "s1")
		if w.allocated("s1", name1, pfClass) != 1 {
			t.Error("the agent deleted the allocation")
		}
		w.deleteAllocations("s1")
		w.until("it is gone", func() bool { return w.provider(name1).ID == "" && w.compute.conditions() == "" })
		stop = w.restart(stop, `{"vendor_id":"ffff"}`)
		if w.provider(name1).ID != "" || w.compute.conditions() != "" {
			t.Errorf("%+v %q", w.provider(name1), w.compute.conditions())
		}
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "device_spec names its VFs instead", func(t *testing.T, w *testHost) {
		stop, view := held(w)
		must(t, stop())
		writes := w.writes()
		setRules(w, vfRule)
		contains(t, w.refusedStart(fault.Invalid), "0000:3b:00.1", "server s1 holds its PF "+pf1)
		if w.writes() != writes {
			t.Errorf("%d writes", w.writes()-writes)
		}
		same(w, view)
		setRules(w, pfRule)
		_, stop = w.startReported()
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "the host no longer has it", func(t *testing.T, w *testHost) {
		stop, view := held(w)
		goneNow := func() bool {
			devices := w.compute.lastReport().Devices
			i := slices.IndexFunc(devices, func(d host.Device) bool { return d.Address == pf1 })
			if i < 0 || devices[i].Holder != "s1" || devices[i].State != "allocated" {
				t.Fatalf("the report has %+v", devices)
			}
			return devices[i].Gone()
		}
		if goneNow() {
			t.Error("the report says that it is gone")
		}
		w.sysfs.remove(pf1)
		w.until("the report says that it is gone", goneNow)
		w.sysfs.add(pf1, "1572", "")
		w.until("the report says that it is back", func() bool { return !goneNow() })
		w.sysfs.remove(pf1)
		stop = w.restart(stop, pfRule)
		if !goneNow() {
			t.Error("the report after a restart does not say that it is gone")
		}
		for range 3 {
			same(w, view)
			contains(t, w.compute.conditions(), pf1, "s1")
			time.Sleep(time.Minute)
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
}

// Compute deletes an allocation after the agent has freed the device. The plan that the agent makes at once still sees
// it, and is repeated soon, not at the next rescan.
func TestPlanIsRepeatedAfterARelease(t *testing.T) {
	scenario(t, "the VFs are gone", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1), w.server("s2", name1))
		w.untilPhase(host.Running, "s1", "s2")
		for address := range w.holders() {
			w.sysfs.remove(address)
		}
		stop = w.restart(stop, vfRule)
		w.compute.assign(w.server("s2", name1))
		w.untilPhase(host.Gone, "s1")
		time.Sleep(time.Second)
		if got := w.total(name1, class); got != 2 {
			t.Errorf("%d VFs of a provider that has two allocations", got)
		}
		w.deleteAllocations("s1")
		time.Sleep(10 * time.Second)
		if got := w.total(name1, class); got != 1 {
			t.Errorf("%d VFs ten seconds after the allocation was deleted", got)
		}
		must(t, stop())
	})
}
