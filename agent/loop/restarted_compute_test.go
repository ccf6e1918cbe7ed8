package loop

import (
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

// A compute that has restarted gets a report at once: it waits for one before it continues.
func TestReportToAComputeThatStartsAgain(t *testing.T) {
	scenario(t, "at once", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1"))
		w.untilPhase(host.Running, "s1")
		time.Sleep(10 * time.Second)
		reports := w.compute.count(&w.compute.reports)
		w.compute.mu.Lock()
		w.compute.assignments.Epoch, w.compute.assignments.EpochID = 1, "e1"
		w.compute.mu.Unlock()
		w.compute.endStreams()
		time.Sleep(time.Second)
		if now := w.compute.count(&w.compute.reports); now == reports {
			t.Error("no report within a second")
		}
		must(t, stop())
	})
}

// The agent reports its servers again to a restarted compute, whose database may be from a backup.
func TestGuestsAreReportedToAComputeThatStartsAgain(t *testing.T) {
	scenario(t, "after compute has restarted", func(t *testing.T, w *testHost) {
		w.compute.assignments.Epoch, w.compute.assignments.EpochID = 1, "e1"
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.compute.forget()
		w.compute.endStreams()
		time.Sleep(time.Minute)
		if phase := w.compute.phase("s1"); phase != "" {
			t.Errorf("%q to the same compute", phase)
		}
		w.compute.mu.Lock()
		w.compute.assignments.Past = &host.Position{Epoch: 1, EpochID: "e1", Revision: w.compute.assignments.Revision}
		w.compute.assignments.Epoch, w.compute.assignments.EpochID = 2, "e2"
		w.compute.mu.Unlock()
		w.compute.endStreams()
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
}
