package conductor

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
)

// A revert that Placement refuses permanently ends with a reason and an instruction. Then it is repeated, or the
// server is deleted.
func TestRefusedRevert(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		st := operation{hosts: map[string]int{"a": 1, "b": 2}}
		c := st.prepare(t)
		var denied atomic.Bool
		c.start(t.Context(), c.store, c.client(func(call placementtest.Call) (before, after error) {
			if call.Op == "Reshape" && denied.Load() {
				before = fault.New(fault.Conflict, "the provider has changed").WithCode(placement.CodeUndefined)
			}
			return before, nil
		}))
		c.act(larger("m1", 2))
		c.settlePhase(lifecycle.Resized)
		c.spend("a")
		denied.Store(true)
		c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		c.waitFor("it is given up", func() bool { return c.server().Phase() == lifecycle.RevertBlocked })
		s := c.server()
		if s.Status() != "ERROR" || s.TaskState() != "" || !strings.Contains(s.Fault.Message, "migration m1") ||
			!strings.Contains(s.Fault.Message, "reset the server's state") {
			t.Errorf("%s %s %+v", s.Status(), s.TaskState(), s.Fault)
		}
		c.waitFor("the guest runs again, under the migration's name", c.agentsDone)
		c.checkConsistent("revert_blocked")
		if i := slices.IndexFunc(s.History,
			func(m lifecycle.HistoryEntry) bool { return m.Times == lifecycle.MaxRefusals }); i < 0 {
			t.Errorf("%s", c.histories())
		}
		if deleted {
			c.deleteServer()
			c.settle(lifecycle.Deleted)
			continue
		}
		denied.Store(false)
		c.act(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Reset})
		c.settle(lifecycle.Active)
		if s := c.server(); s.Host != "a" || s.Fault != nil || s.Status() != "ACTIVE" {
			t.Errorf("%s on %s, %+v", s.Status(), s.Host, s.Fault)
		}
	}
}
