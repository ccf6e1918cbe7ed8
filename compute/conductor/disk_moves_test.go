package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// A server whose disk cannot be copied, or whose guest cannot be migrated live because libvirt of its host or of all
// others cannot be reached, is not moved: its host or all others cannot do it. The request, or the search
// for a host, names the reason, and so does the plan of a drain. Nothing has changed then.
func TestServerWhoseDiskCannotMoveStays(t *testing.T) {
	for _, test := range []struct {
		action      lifecycle.Action
		host, where string
	}{
		{lifecycle.Migrate, "a", "cannot leave host a: no address"},
		{lifecycle.Migrate, "b", "be copied to it: no address"},
		{lifecycle.Live, "a", "cannot be migrated live from host a: no address"},
		{lifecycle.Live, "b", "cannot be migrated live to it: no address"},
	} {
		host, where := test.host, test.where
		t.Run(string(test.action)+" "+host, func(t *testing.T) {
			c := newCloud(t, map[string]int{"a": 1, "b": 1})
			c.start(t.Context(), c.store, c.client(nil))
			if err := c.store.DisableHost(t.Context(), "b", "", time.Now()); err != nil {
				t.Fatal(err)
			}
			s := server("s")
			s.Flavor.DiskGB = 1
			s.Requests[0].Requirement.LiveMigratable = pci.Yes
			if s = c.make(s); s.Host != "a" {
				t.Fatalf("on %s\n%s", s.Host, c.histories())
			}
			if err := c.store.EnableHost(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
			c.describe(func(h *schedule.Host) {
				if h.Name == host {
					h.NoDiskMoves = "no address"
				}
			})
			request := lifecycle.ActionRequested{ID: "m", Action: test.action}
			_, err := c.conductor().Act(t.Context(), "s", request)
			if refused := host == "a"; refused != fault.Is(err, fault.Conflict) ||
				refused && !strings.Contains(err.Error(), where) {
				t.Errorf("%v", err)
			}
			c.waitSettled()
			now := c.server()
			if host == "b" && !strings.Contains(c.histories(), where) {
				t.Errorf("no reason:\n%s", c.histories())
			}
			if now.State != lifecycle.Active || now.Host != "a" || now.Move != nil || now.Actual == lifecycle.Off {
				t.Errorf("%s on %s\n%s", now.Stage(), now.Host, c.histories())
			}
			plan, err := c.conductor().Scheduler.PlanDrain(t.Context(), "a", nil)
			if err != nil || len(plan) != 1 || plan[0].To != "" || !strings.Contains(plan[0].Reason, "no address") {
				t.Errorf("%+v %v", plan, err)
			}
		})
	}
}
