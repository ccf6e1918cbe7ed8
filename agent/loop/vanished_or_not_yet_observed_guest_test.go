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

// A guest that has vanished is built again; one that an earlier observation does not have yet has not vanished.
func TestVanishedGuest(t *testing.T) {
	scenario(t, "a vanished guest is built again with its devices", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		must(t, w.guests.Destroy(t.Context(), "s1"))
		w.until("it is back", func() bool { return slices.Equal(w.running(), []string{"s1"}) })
		time.Sleep(time.Minute)
		must(t, stop())
		w.checkConsistent("s1")
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
