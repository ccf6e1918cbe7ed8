package loop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/api/host"
)

// Before an agent that was restarted has received assignments, it reports no guest as assigned.
func TestGuestsBeforeTheFirstAssignments(t *testing.T) {
	scenario(t, "after a restart", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s1 := w.server("s1", name1)
		w.compute.assign(s1)
		w.untilPhase(host.Running, "s1")
		reports := func(present ...host.Present) {
			t.Helper()
			w.until(fmt.Sprintf("reported: %+v", present), func() bool {
				w.compute.mu.Lock()
				defer w.compute.mu.Unlock()
				return slices.Equal(w.compute.report.Guests, present)
			})
		}
		reports(host.Present{ID: "s1", Assigned: true})
		must(t, stop())
		w.compute.muteStreams(true)
		_, stop = w.startReported()
		reports(host.Present{ID: "s1"})
		w.compute.muteStreams(false)
		reports(host.Present{ID: "s1", Assigned: true})
		must(t, stop())
	})
}
