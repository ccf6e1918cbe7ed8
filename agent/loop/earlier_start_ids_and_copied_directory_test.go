package loop

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A start of an agent sends its id, and the ids of earlier starts that compute has not acknowledged.
func TestStartIDs(t *testing.T) {
	scenario(t, "each start has its own id and sends those of earlier starts", func(t *testing.T, w *testHost) {
		ids := []string{"start 1", "start 2", "start 3", "start 4"}
		w.options.NewStart = func() (id string) { id, ids = ids[0], ids[1:]; return id }
		w.options.Machine = state.Machine{ID: "m1", LockID: "boot 1"}
		_, stop := w.startReported()
		w.compute.assign(w.server("s1"))
		w.untilPhase(host.Running, "s1")
		if r := w.compute.lastReport(); r.Start != "start 1" || len(r.Previous) > 0 || r.LockID != "boot 1" ||
			w.compute.guest("s1").Start != "start 1" {
			t.Errorf("%+v, %+v", r.Sender(), w.compute.guest("s1"))
		}
		must(t, stop())
		w.compute.setUnavailable(true) // this start is never acknowledged
		_, stop = w.start()
		time.Sleep(time.Minute)
		must(t, stop())
		if got := w.journalled().Starts(); !slices.Equal(got, []string{"start 1", "start 2"}) {
			t.Errorf("%v", got)
		}
		w.compute.setUnavailable(false)
		w.compute.mu.Lock()
		w.compute.reports = 0
		w.compute.mu.Unlock()
		_, stop = w.startReported()
		w.until("reported", func() bool { return w.compute.count(&w.compute.reports) > 0 })
		must(t, stop())
		if got := w.compute.lastReport().Previous; !slices.Equal(got, []string{"start 1", "start 2"}) && len(got) != 0 {
			t.Errorf("%v", got)
		}
		if got := w.journalled().Starts(); !slices.Equal(got, []string{"start 3"}) {
			t.Errorf("acknowledged: %v", got)
		}
	})
	scenario(t, "a directory that was written on another machine is refused until it is adopted",
		func(t *testing.T, w *testHost) {
			w.options.Machine.ID = "m1"
			_, stop := w.startReported()
			must(t, stop())
			w.options.Machine.ID = "m2"
			contains(t, w.refusedStart(fault.Conflict), "was written on another machine (machine-id m1, here it is m2)")
			must(t, w.agent().Adopt(t.Context()))
			_, stop = w.startReported()
			must(t, stop())
			if id, _ := w.journalled().Identity(); id.Machine != "m2" {
				t.Errorf("%+v", id)
			}
		})
	scenario(t, "two directories of one host on one machine", func(t *testing.T, w *testHost) {
		w.options.LockDir = filepath.Join(w.dir, "locks")
		must(t, os.Mkdir(w.options.LockDir, 0o700))
		_, stop := w.startReported()
		original := w.options.Dir
		w.options.Dir = filepath.Join(w.dir, "copy")
		must(t, os.CopyFS(w.options.Dir, os.DirFS(original)))
		contains(t, w.refusedStart(fault.Conflict), "agent-cmp1.lock locked; stop it")
		must(t, stop())
		_, err := journal.Open(original)
		must(t, err)
	})
}
