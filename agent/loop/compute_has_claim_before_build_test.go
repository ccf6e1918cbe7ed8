package loop

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A server is deleted while its agent cannot report its claim, and the agent crashes. As compute never received a
// report, it has freed everything at once, so no guest may exist.
func TestNoGuestBeforeComputeHasTheClaim(t *testing.T) {
	scenario(t, "compute refuses reports, deletes the server, and the agent crashes", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.refuseReports(true)
		w.compute.assign(w.server("s1", name1))
		w.until("a claim", func() bool { return slices.Equal(w.journalled().Servers(), []string{"s1"}) })
		time.Sleep(time.Minute)
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v, and compute has no report of them", got)
		}
		w.compute.removeWithoutSending()
		must(t, stop())
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v are left", got)
		}
		w.compute.refuseReports(false)
		_, stop = w.startReported()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "compute refuses the claim of a server that is no longer assigned", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.refuseReports(true)
		w.compute.assign(w.server("s1", name1))
		w.until("a claim", func() bool { return slices.Equal(w.journalled().Servers(), []string{"s1"}) })
		w.compute.muteStreams(true) // the agent does not receive the removal
		w.compute.removeWithoutSending()
		w.compute.refuseReports(false)
		w.until("a refusal", func() bool { return strings.Contains(w.compute.logText(), "s1 refused") })
		time.Sleep(10 * time.Second)
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v, which compute has refused", got)
		}
		w.compute.muteStreams(false)
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "compute refuses reports for a while", func(t *testing.T, w *testHost) {
		var builds int
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				if builds++; builds < buildTries {
					return fault.New(fault.Unavailable, "restarting")
				}
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.refuseReports(true)
		w.compute.assign(w.server("s1", name1))
		time.Sleep(2 * time.Minute)
		w.compute.refuseReports(false)
		w.untilPhase(host.Running, "s1") // refused reports do not count as failed builds
		must(t, stop())
		w.checkConsistent("s1")
	})
}

func (w *testHost) inPhase(phase host.Phase, servers ...string) bool {
	return !slices.ContainsFunc(servers, func(s string) bool { return w.compute.phase(s) != phase })
}
