package conductor

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// An action that the state, the devices or the host do not allow is refused with the reason.
func TestRefusedActions(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1, "b": 1}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	refused := func(a lifecycle.Action, says string) {
		t.Helper()
		_, err := c.conductor().Act(t.Context(), "s", lifecycle.ActionRequested{ID: "w-" + string(a), Action: a})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", a, err)
		}
	}
	refused(lifecycle.Start, "Cannot 'start' instance s while it is in vm_state active")
	refused(lifecycle.Confirm, "Cannot 'confirmResize' instance s while it is in vm_state active")
	refused(lifecycle.Unshelve, "while it is in vm_state active")
	refused(lifecycle.Offload, "while it is in vm_state active")
	refused(lifecycle.Evacuate, "still in use")
	if _, err := c.store.Change(t.Context(), "s", func(s lifecycle.Server) lifecycle.Server {
		s.Requests = slices.Clone(s.Requests)
		s.Requests[0].Requirement.LiveMigratable = pci.Unset
		return s
	}); err != nil {
		t.Fatal(err)
	}
	refused(lifecycle.Live, "alias nic")
	if _, err := c.conductor().Act(t.Context(), "none", lifecycle.ActionRequested{Action: lifecycle.Stop}); !fault.Is(err,
		fault.NotFound) {
		t.Error(err)
	}
}

// A server whose devices are not explicitly live-migratable is not migrated live, although another host has a device
// for it. Nova answers 500 after it has scheduled; Berth refuses the request with a reason and changes nothing.
func TestLiveMigrationIsRefused(t *testing.T) {
	for row, flag := range map[string]pci.Flag{"nothing is said of it": pci.Unset, "alias and device say no": pci.No} {
		t.Run(row, func(t *testing.T) {
			c := newCloud(t, map[string]int{"a": 1, "b": 1})
			c.describe(func(h *schedule.Host) { h.Devices[0].LiveMigratable = flag })
			c.hide("pf-b")
			c.start(t.Context(), c.store, c.client(nil))
			s := server("s")
			s.Requests[0].Requirement.LiveMigratable = flag
			before := c.make(s)
			c.settle(lifecycle.Active)
			c.unhide("pf-b")
			_, err := c.conductor().Act(t.Context(), "s", lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(),
				"alias nic are not explicitly requested as live-migratable") {
				t.Errorf("%v", err)
			}
			c.settle(lifecycle.Active)
			after := c.server()
			if after.Host != "a" || after.Migration != nil || after.Fault != nil || !slices.Equal(after.Devices,
				before.Devices) {
				t.Errorf("on %s with %v, migration %+v\n%s", after.Host, after.Devices, after.Migration, c.histories())
			}
			if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 1 || b != 0 {
				t.Errorf("used: %d of a, %d of b", a, b)
			}
		})
	}
}
