package loop

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A refused reshape ends the start, and is a condition of a running agent.
func TestReshapeRefused(t *testing.T) {
	refuses := func(call string) error {
		if call == "Reshape" {
			return fault.New(fault.Invalid, "no such consumer type")
		}
		return nil
	}
	scenario(t, "when reporting is switched on", func(t *testing.T, w *testHost) {
		w.options.ReportInPlacement = false
		_, stop := w.startReported()
		w.compute.assign(w.legacyServer("s1", 1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.options.ReportInPlacement, w.placement.fail = true, refuses
		// no allocation is written before compute has confirmed the server, so the start is not refused
		_, stop = w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no such consumer type") })
		must(t, stop())
		w.placement.fail = nil
		_, stop = w.startReported()
		w.until("the allocation is written", func() bool {
			return w.allocated("s1", name1, class)+w.allocated("s1", name2,
				class) == 1
		})
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "later", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.placement.fail = refuses
		_, stop = w.startReported()
		w.deleteAllocation("s1", name1)
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "no such consumer type") })
		w.compute.assign(w.server("s2", name2), host.Server{ID: "s1", Requests: w.server("s1", name1).Requests})
		w.untilPhase(host.Running, "s2")
		must(t, stop())
	})
}
