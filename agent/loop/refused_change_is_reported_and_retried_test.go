package loop

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A change that the hypervisor refuses is reported with the actual state of the guest. It is retried at growing
// intervals as long as compute assigns it. The guest is kept, and later changes are tried.
func TestHypervisorRefusals(t *testing.T) {
	scenario(t, "a guest that does not stop", func(t *testing.T, w *testHost) {
		var refuses atomic.Bool
		var tries atomic.Int32
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" && refuses.Load() {
				tries.Add(1)
				return fault.New(fault.Internal, "no answer to ACPI")
			}
			return nil
		}
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		refuses.Store(true)
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Refused, "s1")
		g := w.compute.guest("s1")
		if g.Power != host.On || g.Message != "no answer to ACPI" || len(g.Devices) != 1 || g.Build != 0 {
			t.Errorf("%+v", g)
		}
		time.Sleep(5 * time.Minute)
		// after 5, 15, 35, 75 and 155 s
		if n := tries.Load(); n != 6 || w.compute.conditions() != "server s1: no answer to ACPI" {
			t.Errorf("tried %d times, %q", n, w.compute.conditions())
		}
		w.compute.assign(s) // compute assigns the actual state
		w.untilPhase(host.Running, "s1")
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Refused, "s1")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		refuses.Store(false)
		w.compute.assign(poweredOff(s))
		w.untilPhase(host.Stopped, "s1")
		refuses.Store(true)
		w.compute.assign(s)
		w.untilPhase(host.Refused, "s1")
		if g := w.compute.guest("s1"); g.Power != host.Off {
			t.Errorf("%+v", g)
		}
		must(t, stop())
		w.checkConsistent("s1")
	})
	scenario(t, "a change is retried while the hypervisor does not answer", func(t *testing.T, w *testHost) {
		var failing atomic.Bool
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" && failing.Load() {
				return fault.New(fault.Unavailable, "libvirtd restarts")
			}
			return nil
		}
		_, stop := w.startReported()
		s := w.server("s1", name1)
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		failing.Store(true)
		w.compute.assign(poweredOff(s))
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "libvirtd restarts") })
		if phase := w.compute.phase("s1"); phase != host.Running {
			t.Error(phase)
		}
		failing.Store(false)
		w.untilPhase(host.Stopped, "s1")
		must(t, stop())
	})
}
