package loop

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

// A guest that has vanished is not built as a new one, which would have an empty disk, and keeps its devices until
// compute names it for removal; one that an earlier observation does not have yet has not vanished.
func TestVanishedGuest(t *testing.T) {
	scenario(t, "a vanished guest is not built as a new one", func(t *testing.T, w *testHost) {
		a, stop := w.startReported()
		s1 := w.server("s1", name1)
		w.compute.assign(s1)
		w.untilPhase(host.Running, "s1")
		must(t, w.guests.Destroy(t.Context(), "s1"))
		w.untilPhase(host.Refused, "s1")
		g := w.compute.guest("s1")
		if g.Power != host.Off || g.RetryIn == 0 || !strings.Contains(g.Message, "was built here") {
			t.Errorf("reported as %+v", g)
		}
		time.Sleep(time.Hour)
		w.compute.mu.Lock()
		w.compute.omitRemovals = true
		w.compute.mu.Unlock()
		w.compute.assign()
		time.Sleep(time.Hour)
		if got := claimedBy(a, "s1"); len(w.running()) != 0 || got != 1 {
			t.Errorf("guests %v, %d devices of s1", w.running(), got)
		}
		if got := w.compute.conditions(); !strings.Contains(got, "berth agent destroy s1") {
			t.Errorf("conditions %q", got)
		}
		s1.Build = 1 // a user has it rebuilt
		w.compute.assign(s1)
		w.until("it is rebuilt", func() bool { return slices.Equal(w.running(), []string{"s1"}) })
		time.Sleep(time.Minute)
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "an operator frees the devices of a vanished guest", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		must(t, w.guests.Destroy(t.Context(), "s1"))
		must(t, w.agent().DestroyGuest(t.Context(), "s1", true))
		w.compute.assign()
		_, stop = w.startReported()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "an observation older than a guest is ignored", func(t *testing.T, w *testHost) {
		slow := make(chan struct{})
		var observations atomic.Int32
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "capacity" && observations.Add(1) == 2 { // after the guests were read
				<-slow
			}
			return nil
		}
		_, stop := w.startReported()
		time.Sleep(90 * time.Second)
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		close(slow)
		time.Sleep(10 * time.Second)
		must(t, stop())
		if n := strings.Count(w.compute.logText(), "s1 running"); n != 1 {
			t.Errorf("running is reported %d times", n)
		}
	})
}
