package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

func TestAssignmentStream(t *testing.T) {
	scenario(t, "ended streams are opened again", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		for i := range 5 {
			id := fmt.Sprintf("s%d", i)
			w.compute.endStreams()
			w.compute.assign(w.server(id))
			w.untilPhase(host.Running, id)
		}
		must(t, stop())
		if n := w.compute.count(&w.compute.streams); n != 7 { // the first only asks for admission
			t.Errorf("%d streams", n)
		}
	})
	scenario(t, "a stream without messages is closed after three heartbeats", func(t *testing.T, w *testHost) {
		w.compute.muteStreams(true)
		_, stop := w.startReported()
		time.Sleep(10 * host.Heartbeat)
		must(t, stop())
		if n := w.compute.count(&w.compute.streams); n < 3 || n > 5 {
			t.Errorf("%d streams in ten heartbeats", n)
		}
	})
	scenario(t, "older assignments are not followed", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1"))
		w.untilPhase(host.Running, "s1")
		w.compute.mu.Lock()
		w.compute.assignments.Revision = -5
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign(w.server("s2"))
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "restored backup") })
		time.Sleep(5 * time.Minute)
		if w.compute.phase("s2") != "" || w.compute.lastReport().Behind == "" {
			t.Errorf("s2 is %q, Behind in the report is %q", w.compute.phase("s2"), w.compute.lastReport().Behind)
		}
		must(t, stop())
		w.checkConsistent("s1")
		_, stop = w.startReported() // and not after a restart of the agent
		time.Sleep(5 * time.Minute)
		w.compute.mu.Lock()
		w.compute.assignments.Revision = 7 // the newest database is back
		w.compute.mu.Unlock()
		w.compute.assign(w.server("s1"), w.server("s2"))
		w.untilPhase(host.Running, "s2")
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
		w.checkConsistent("s1", "s2")
	})
}

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
