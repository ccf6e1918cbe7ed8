package loop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// An agent destroys a guest only when the assignments name it for removal.
func TestOnlyNamedGuestsAreDestroyed(t *testing.T) {
	scenario(t, "a guest that the assignments do not mention keeps running, and may be destroyed by an operator",
		func(t *testing.T, w *testHost) {
			a, stop := w.startReported()
			w.compute.assign(w.server("s1", name1), w.server("s2"))
			w.untilPhase(host.Running, "s1", "s2")
			w.compute.mu.Lock()
			w.compute.omitRemovals = true
			w.compute.mu.Unlock()
			w.compute.assign(w.server("s2"))
			w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "berth agent destroy s1") })
			time.Sleep(10 * time.Minute)
			if got := w.running(); !slices.Equal(got, []string{"s1", "s2"}) || len(w.holders()) != 1 {
				t.Errorf("guests %v, devices %v", got, w.holders())
			}
			present := []host.Present{{ID: "s1"}, {ID: "s2", Assigned: true}}
			if got := w.compute.lastReport().Guests; !slices.Equal(got, present) {
				t.Errorf("%+v", got)
			}
			if err := a.DestroyGuest(t.Context(), "s1", false); !fault.Is(err, fault.Conflict) {
				t.Errorf("beside the running agent: %v", err)
			}
			must(t, stop())
			for id, kind := range map[string]fault.Kind{"s2": fault.Conflict, "none": fault.NotFound} {
				if err := w.agent().DestroyGuest(t.Context(), id, false); !fault.Is(err, kind) {
					t.Errorf("%s: %v", id, err)
				}
			}
			must(t, w.agent().DestroyGuest(t.Context(), "s1", false))
			_, stop = w.startReported()
			w.untilPhase(host.Gone, "s1")
			w.until("no condition", func() bool { return w.compute.conditions() == "" })
			must(t, stop())
			w.checkConsistent("s2")
		})
	scenario(t, "a guest that Berth did not create is treated the same way", func(t *testing.T, w *testHost) {
		at, err := device.ParseID("0000:3b:00.1")
		must(t, err)
		must(t, w.guests.Build(t.Context(), hypervisor.Guest{ID: "foreign", Name: "by hand",
			Devices: []hypervisor.Device{{ID: at}}}))
		_, stop := w.startReported()
		w.until("a provider", func() bool { return w.provider(name1).ID != "" }) // not before the first assignments
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.until("a condition", func() bool {
			return strings.Contains(w.compute.conditions(), "guest foreign (by hand) exists here with 0000:3b:00.1")
		})
		time.Sleep(5 * time.Minute)
		must(t, stop())
		if got := w.holders(); got["0000:3b:00.1"] != "foreign" || got["0000:3b:00.2"] != "s1" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "journal and compute's database are lost together", func(t *testing.T, w *testHost) {
		w.compute.assignments.Cloud = "c1"
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1), w.server("s2", name2))
		w.untilPhase(host.Running, "s1", "s2")
		must(t, stop())
		w.forgetJournal()
		w.compute.setCloud("c2")
		w.options.NewID = func() string { return "another" }
		time.Sleep(3 * time.Minute) // compute no longer expects the first agent
		_, stop = w.startReported()
		w.compute.assign(w.server("s3", name1))
		w.untilPhase(host.Running, "s3")
		time.Sleep(5 * time.Minute)
		must(t, stop())
		w.checkConsistent("s1", "s2", "s3") // and each device has one holder
	})
	scenario(t, "a removal is reported until compute has received the report", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.compute.refuseReports(true)
		w.compute.assign()
		w.until("it is destroyed", func() bool { return len(w.running()) == 0 })
		must(t, stop())
		w.forgetJournal() // no record of s1 is left
		w.compute.refuseReports(false)
		_, stop = w.startReported()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "a claim without a guest is freed without a removal in the assignments", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.refuseReports(true) // no claim is confirmed, so nothing is built
		w.compute.assign(w.server("s1", name1))
		w.until("claimed", func() bool { return len(w.journalled().Claims()) == 1 })
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign()
		w.compute.refuseReports(false)
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "a guest that was rebuilt more often than compute records is not built again",
		func(t *testing.T, w *testHost) {
			_, stop := w.startReported()
			s := w.server("s1", name1)
			rebuilt := s
			rebuilt.Build = 2
			w.compute.assign(rebuilt)
			w.untilPhase(host.Running, "s1")
			old := poweredOff(s) // an older record: of build 0, and stopped
			w.compute.assign(old)
			w.untilPhase(host.Stopped, "s1")
			guests, err := w.guests.Guests(t.Context())
			if err != nil || len(guests) != 1 || guests[0].Build != 2 || !guests[0].Stopped || w.compute.guest("s1").Build != 2 {
				t.Errorf("%+v %v, reported %+v", guests, err, w.compute.guest("s1"))
			}
			must(t, stop())
		})
}
