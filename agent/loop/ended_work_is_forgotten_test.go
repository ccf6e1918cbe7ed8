package loop

import (
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
)

func TestEndedWorkIsForgotten(t *testing.T) {
	scenario(t, "the agent keeps no cancel function of servers that are gone", func(t *testing.T, w *testHost) {
		a, stop := w.startReported()
		w.compute.assign(w.server("s1", name1), w.server("s2"))
		w.untilPhase(host.Running, "s1", "s2")
		w.compute.assign()
		w.untilPhase(host.Gone, "s1", "s2")
		time.Sleep(time.Second)
		must(t, stop())
		if len(a.cancels) != 0 {
			t.Errorf("%d effects are kept", len(a.cancels))
		}
	})
}
