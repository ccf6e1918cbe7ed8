package conductor

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/placement/placementtest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// spentStories are those of servers whose device for one-time use is spent.
func spentStories() []story {
	two := map[string]int{"a": 1, "b": 2}
	return []story{
		{"cold migration with a spent device, confirmed", two, nil, func(c *cloud) {
			c.spend("a")
			c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Migrate})
			c.settlePhase(lifecycle.Resized)
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		}, lifecycle.Active, "b", 1},
		{"resize, reverted, of a server whose device is reserved meanwhile", two, nil, func(c *cloud) {
			c.ask(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.spend("a")
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		}, lifecycle.Active, "a", 1},
		{"no host can build the resized server, whose device is spent", two, func(c *cloud) {
			c.agents.fails = func(host string) string { return map[string]string{"b": "no hugepages"}[host] }
		}, func(c *cloud) {
			c.spend("a")
			c.ask(larger("m1", 1))
		}, lifecycle.Active, "a", 1},
		{"evacuation with a spent device, and its host returns", two, dark, func(c *cloud) {
			c.spend("a")
			c.agents.hide("a", true)
			c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Evacuate})
			c.until("it is evacuated", func() bool { s := c.one(); return s.State == lifecycle.Active && s.Host == "b" })
			c.agents.hide("a", false)
		}, lifecycle.Active, "b", 1},
		{"shelve and unshelve with a spent device", two, nil, func(c *cloud) {
			c.spend("a")
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Shelve})
			c.settle(lifecycle.Shelved)
			c.ask(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Unshelve})
		}, lifecycle.Active, "b", 1},
	}
}

// What Placement refuses for good on the way back has an end, which says what to do; then it goes on, or the server is
// deleted.
func TestTheWayBackThatIsRefused(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		st := story{hosts: map[string]int{"a": 1, "b": 2}}
		c := st.begin(t)
		var denied atomic.Bool
		c.start(t.Context(), c.store, c.client(func(call placementtest.Call) (before, after error) {
			if call.Op == "Reshape" && denied.Load() {
				before = fault.New(fault.Conflict, "", "the provider has changed").WithCode(placement.CodeUndefined)
			}
			return before, nil
		}))
		c.ask(larger("m1", 2))
		c.settlePhase(lifecycle.Resized)
		c.spend("a")
		denied.Store(true)
		c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		c.until("it is given up", func() bool { return c.one().Phase() == lifecycle.RevertBlocked })
		s := c.one()
		if s.Status() != "ERROR" || s.TaskState() != "" || !strings.Contains(s.Fault.Message, "migration m1") ||
			!strings.Contains(s.Fault.Message, "reset the server's state") {
			t.Errorf("%s %s %+v", s.Status(), s.TaskState(), s.Fault)
		}
		c.until("the guest runs again, under the migration's name", c.quiet)
		c.whole("stranded")
		if i := slices.IndexFunc(s.History,
			func(m lifecycle.HistoryEntry) bool { return m.Times == lifecycle.MaxRefusals }); i < 0 {
			t.Errorf("%s", c.trails())
		}
		if deleted {
			c.remove()
			c.settle(lifecycle.Deleted)
			continue
		}
		denied.Store(false)
		c.ask(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Reset})
		c.settle(lifecycle.Active)
		if s := c.one(); s.Host != "a" || s.Fault != nil || s.Status() != "ACTIVE" {
			t.Errorf("%s on %s, %+v", s.Status(), s.Host, s.Fault)
		}
	}
}
