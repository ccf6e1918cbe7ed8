package loop

import (
	"testing"

	"github.com/openberth/berth/api/host"
)

// A server is rebooted while compute receives no results, only claims: the guest is again as assigned, and the agent
// reports it again.
func TestRepeatedAssignmentIsReportedAgain(t *testing.T) {
	scenario(t, "stopped and started", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		refuseResults := func(refused bool) {
			w.compute.mu.Lock()
			defer w.compute.mu.Unlock()
			w.compute.onlyClaims = refused
		}
		refuseResults(true)
		w.compute.assign(poweredOff(s))
		w.until("the guest has stopped", func() bool { return w.guest("s1").Stopped })
		w.compute.assign(s)
		w.until("the guest runs again", func() bool { return !w.guest("s1").Stopped })
		w.compute.forget()
		refuseResults(false)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
	})
}
