package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

// A reboot while compute does not hear the agent: stopped and started again, the guest is as it was before, and yet compute waits to be
// told so.
func TestRepeatedAssignmentIsReportedAgain(t *testing.T) {
	scenario(t, "stopped and started", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		w.office.assign(s)
		w.untilPhase(host.Running, "s1")
		deafen := func(deaf bool) {
			w.office.mu.Lock()
			defer w.office.mu.Unlock()
			w.office.deaf = deaf
		}
		deafen(true)
		w.office.assign(off(s))
		w.until("the guest has stopped", func() bool { return w.guest("s1").Stopped })
		w.office.assign(s)
		w.until("the guest runs again", func() bool { return !w.guest("s1").Stopped })
		w.office.forget()
		deafen(false)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
	})
}

// Between claim and building the agent may have begun anew with another class in its configuration.
func TestDeviceOfAnotherClassIsNotAllocated(t *testing.T) {
	scenario(t, "reclassed", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		s := w.want("s1", name1)
		s.Requests[0].Class = "CUSTOM_OLD"
		w.ledger.mu.Lock()
		w.ledger.allocations["s1"][resource.ProviderID(s.Requests[0].Providers[0])] = resource.Amounts{"CUSTOM_OLD": 1}
		w.ledger.mu.Unlock()
		w.office.assign(s)
		w.untilPhase(host.Failed, "s1")
		if text := w.office.guest("s1").Message; !strings.Contains(text, "device_spec has come to say "+class) {
			t.Error(text)
		}
		must(t, stop())
	})
}

// What an agent knows that does not hear compute may be long over: the server may be elsewhere, and the share that is missing with it.
func TestNoAllocationWrittenWithoutAssignments(t *testing.T) {
	scenario(t, "deaf", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		mute := func(mute bool) {
			w.office.mu.Lock()
			w.office.mute = mute
			w.office.mu.Unlock()
			w.office.endStreams()
		}
		mute(true)
		w.lose("s1", name1)
		time.Sleep(10 * time.Minute)
		if n := w.share("s1", name1, class); n != 0 {
			t.Errorf("a share of %d was written", n)
		}
		mute(false)
		w.until("healed", func() bool { return w.share("s1", name1, class) == 1 })
		must(t, stop())
	})
}
