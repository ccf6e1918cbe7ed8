package loop

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

func TestPlacementFaults(t *testing.T) {
	scenario(t, "a plan is discarded and made again after a conflict", func(t *testing.T, w *testHost) {
		var conflicts atomic.Int32
		w.placement.fail = func(call string) error {
			if call == "PutInventories" && conflicts.Add(1) <= 3 {
				return fault.New(fault.Conflict, "generation moved")
			}
			return nil
		}
		_, stop := w.startReported()
		if w.provider(name2).Inventories[class].Total != 2 || w.compute.conditions() != "" {
			t.Errorf("%+v, conditions %q", w.provider(name2), w.compute.conditions())
		}
		must(t, stop())
	})
	scenario(t, "an agent serves while each plan conflicts with other clients", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		must(t, stop())
		w.sysfs.add("0000:3b:00.3", "154c", pf1)
		w.placement.fail = func(call string) error {
			if call == "PutInventories" {
				return fault.New(fault.Conflict, "generation moved")
			}
			return nil
		}
		_, stop = w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "generation moved") })
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
	})
	scenario(t, "no guest is built while its allocation cannot be read", func(t *testing.T, w *testHost) {
		var unavailable atomic.Bool
		w.placement.fail = func(string) error {
			if unavailable.Load() {
				return fault.New(fault.Unavailable, "no answer")
			}
			return nil
		}
		_, stop := w.startReported()
		unavailable.Store(true)
		s1 := host.Server{ID: "s1", Requests: w.server("s1", name1).Requests}
		w.compute.assign(s1)
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no answer") })
		if len(w.running()) != 0 || w.compute.phase("s1") != "" {
			t.Errorf("guests %v, reported %v", w.running(), w.compute.phase("s1"))
		}
		unavailable.Store(false)
		w.untilPhase(host.Running, "s1")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
	})
}
