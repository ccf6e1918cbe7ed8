package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// A server whose disk cannot be copied is not moved: its host or all others cannot do it. The request, or the search
// for a host, names the reason, and so does the plan of a drain. Nothing has changed then.
func TestServerWhoseDiskCannotMoveStays(t *testing.T) {
	for host, where := range map[string]string{"a": "cannot leave host a: no address",
		"b": "be copied to it: no address"} {
		t.Run(host, func(t *testing.T) {
			c := newCloud(t, map[string]int{"a": 1, "b": 1})
			c.start(t.Context(), c.store, c.client(nil))
			if err := c.store.DisableHost(t.Context(), "b", "", time.Now()); err != nil {
				t.Fatal(err)
			}
			s := server("s")
			s.Flavor.DiskGB = 1
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
			request := lifecycle.ActionRequested{ID: "m", Action: lifecycle.Migrate}
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
			if err != nil || len(plan) != 1 || plan[0].To != "" || !strings.Contains(plan[0].Reason, where) {
				t.Errorf("%+v %v", plan, err)
			}
		})
	}
}
