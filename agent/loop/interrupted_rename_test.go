package loop

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// The assignments change while the hypervisor cannot rename a guest.
func TestSlowRename(t *testing.T) {
	failRenames := func(w *testHost) *atomic.Bool {
		var failing atomic.Bool
		failing.Store(true)
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if failing.Load() && operation == "rename" {
				return fault.New(fault.Unavailable, "busy")
			}
			return nil
		}
		return &failing
	}
	scenario(t, "the move is confirmed, and the server is assigned here", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		failing := failRenames(w)
		m := poweredOff(w.moved(s, "m1"))
		resized := w.server("s1", name2)
		resized.Requests[0].ID = "r-new"
		w.compute.forget()
		w.compute.assign(m, resized)
		w.until("the rename is journalled", func() bool { return len(w.journalled().Renames()) == 1 })
		w.compute.assign(resized)
		time.Sleep(time.Minute)
		if w.compute.phase("s1") != "" {
			t.Errorf("s1 is reported: %+v", w.compute.guest("s1"))
		}
		failing.Store(false)
		w.untilPhase(host.Gone, "m1")
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
		if got := w.holders(); len(got) != 1 || got["0000:5e:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
	scenario(t, "the move is reverted", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		failing := failRenames(w)
		m := poweredOff(w.moved(s, "m1"))
		w.compute.forget()
		w.compute.assign(m)
		w.until("the rename is journalled", func() bool { return len(w.journalled().Renames()) == 1 })
		must(t, stop())
		w.compute.assign(w.revert(s, m))
		_, stop = w.startReported()
		time.Sleep(time.Minute)
		failing.Store(false)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
		if got := w.holders(); len(got) != 1 || got["0000:3b:00.1"] != "s1" {
			t.Errorf("%v", got)
		}
	})
}

// The journal was written before an agent crashed between the two parts of a rename.
func TestInterruptedRename(t *testing.T) {
	scenario(t, "the guest still has its old id", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		j, err := journal.Open(w.options.Dir)
		must(t, err)
		must(t, j.Write(journal.Renamed("s1", "m1", false)))
		must(t, j.Close())
		w.forbid("destroy", "build")
		w.compute.assign(w.moved(s, "m1"))
		_, stop = w.startReported()
		w.untilPhase(host.Running, "m1")
		must(t, stop())
		w.checkConsistent("m1")
	})
}

// interruptRename stops the agent and journals an unfinished rename of the guest.
func (w *testHost) interruptRename(stop func() error, was, id string) {
	w.t.Helper()
	must(w.t, stop())
	j, err := journal.Open(w.options.Dir)
	must(w.t, err)
	must(w.t, j.Write(journal.Renamed(was, id, false)))
	must(w.t, j.Close())
}

// A started rename is finished also when the assignments have changed meanwhile. The guest must neither be forgotten
// nor lose its devices.
func TestInterruptedRenameNoLongerAssigned(t *testing.T) {
	scenario(t, "the guest is to be removed under its old id, which it still has", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1")
		w.compute.assign(m)
		w.untilPhase(host.Running, "m1")
		w.interruptRename(stop, "m1", "s1")
		w.compute.mu.Lock()
		w.compute.remove["m1"] = host.Removal{ID: "m1", PreviousID: "s1"}
		w.compute.setAssignments(nil)
		w.compute.mu.Unlock()
		_, stop = w.startReported()
		w.untilPhase(host.Gone, "m1")
		if got := w.holders(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "the assignments mention neither id", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		w.interruptRename(stop, "s1", "m1")
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign()
		w.forbid("destroy")
		_, stop = w.startReported()
		w.until("the guest is reported as unassigned, with its server", func() bool {
			w.compute.mu.Lock()
			defer w.compute.mu.Unlock()
			return slices.Equal(w.compute.report.Guests, []host.Present{{ID: "m1", Server: "s1"}})
		})
		must(t, stop())
		w.checkConsistent("m1")
	})
	scenario(t, "the server is assigned under the new id without a former one", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		m := w.moved(s, "m1")
		w.compute.assign(m)
		w.untilPhase(host.Running, "m1")
		w.interruptRename(stop, "m1", "s1")
		back := w.moved(m, "s1")
		back.PreviousID = ""
		w.compute.assign(back)
		w.compute.mu.Lock()
		w.compute.remove = map[string]host.Removal{}
		w.compute.setAssignments(w.compute.assignments.Servers)
		w.compute.mu.Unlock()
		w.forbid("destroy", "build")
		_, stop = w.startReported()
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.checkConsistent("s1")
	})
}
