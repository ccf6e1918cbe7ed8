package loop

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

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
		a, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Claimed, "s1")
		writes := w.writes()
		for range 10 {
			time.Sleep(time.Minute) // a sync
			if got := w.journalled().Claims(); len(got) != 1 || w.allocated("s1", name1, class) != 1 || w.writes() != writes {
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
		w.checkConsistent("s1")
	})
	scenario(t, "the source", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		// meanwhile the migration got the allocation here, and the server one elsewhere
		m := poweredOff(w.moved(s, "m1"))
		w.placement.SetAllocation("s1", resource.Allocation{"elsewhere": {"VCPU": 1}})
		w.compute.forget()
		w.compute.assign(m)
		_, stop = w.startReported()
		w.untilPhase(host.Stopped, "m1")
		writes := w.writes()
		time.Sleep(10 * time.Minute)
		if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != "m1" || w.allocated("m1", name1, class) != 1 ||
			w.writes() != writes ||
			len(w.placement.Held("s1")) != 1 {
			t.Errorf("%v, %v, %d writes", got, w.placement.all(), w.writes()-writes)
		}
		w.compute.assign()
		w.untilPhase(host.Gone, "m1")
		must(t, stop())
		w.checkConsistent()
	})
}
