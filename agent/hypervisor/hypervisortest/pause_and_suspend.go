package hypervisortest

import (
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

// held pauses and suspends a running guest. A driver that cannot do that returns Conflict, and the guest runs on.
func held(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	h := open(t)
	running := Guest("a")
	must(t, h.Build(t.Context(), running))
	if driver, ok := h.(hypervisor.CrashDumper); ok { // the guest of this test does nothing then
		must(t, driver.TriggerCrashDump(t.Context(), running.ID))
		has(t, h, running)
	}
	paused, suspended, stopped := running, running, running
	paused.Paused, suspended.Stopped, suspended.Suspended, stopped.Stopped = true, true, true, true
	for _, to := range []hypervisor.Guest{paused, running, suspended, running, paused, stopped, running, suspended,
		stopped} {
		err := h.Build(t.Context(), to)
		if fault.Is(err, fault.Conflict) && (to.Paused || to.Suspended) {
			has(t, h, running)
			return
		}
		must(t, err)
		has(t, h, to)
		has(t, open(t), to)
		must(t, h.Build(t.Context(), to)) // repeated
		has(t, h, to)
	}
	if driver, ok := h.(hypervisor.CrashDumper); ok {
		for id, want := range map[string]fault.Kind{stopped.ID: fault.Conflict, "missing": fault.NotFound} {
			if err := driver.TriggerCrashDump(t.Context(), id); !fault.Is(err, want) {
				t.Errorf("a crash dump of %s is triggered: %v", id, err)
			}
		}
	}
	for _, to := range []hypervisor.Guest{paused, suspended} {
		if err := h.Build(t.Context(), to); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a stopped guest is to be %+v: %v", to.Hold, err)
		}
		has(t, h, stopped)
	}
}
