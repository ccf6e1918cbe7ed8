package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
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

// The agent may restart with another class in its configuration between claim and build.
func TestDeviceOfAnotherClassIsNotAllocated(t *testing.T) {
	scenario(t, "the class of the device changes", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		s := w.server("s1", name1)
		s.Requests[0].Class = "CUSTOM_OLD"
		w.placement.set("s1", resource.ProviderID(s.Requests[0].Providers[0]), resource.Amounts{"CUSTOM_OLD": 1})
		w.compute.assign(s)
		w.untilPhase(host.Failed, "s1")
		if text := w.compute.guest("s1").Message; !strings.Contains(text, "device_spec now gives it "+class) {
			t.Error(text)
		}
		must(t, stop())
	})
}

// The assignments of an agent that receives none may be outdated: it writes no missing allocation.
func TestNoAllocationWrittenWithoutAssignments(t *testing.T) {
	scenario(t, "the streams send nothing", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.assign(w.server("s1", name1))
		w.untilPhase(host.Running, "s1")
		mute := func(mute bool) {
			w.compute.mu.Lock()
			w.compute.muted = mute
			w.compute.mu.Unlock()
			w.compute.endStreams()
		}
		mute(true)
		w.deleteAllocation("s1", name1)
		time.Sleep(10 * time.Minute)
		if n := w.allocated("s1", name1, class); n != 0 {
			t.Errorf("an allocation of %d was written", n)
		}
		mute(false)
		w.until("the allocation is written", func() bool { return w.allocated("s1", name1, class) == 1 })
		must(t, stop())
	})
}
