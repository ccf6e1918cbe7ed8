package reconcile

import (
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// The agent stopped during a rename of a guest, and compute's database was restored to before the move: it names the
// guest for removal by its former id and does not mention the new one. The rename is finished and the removal reported.
func TestRemovalByTheFormerIDOfAnUnfinishedRename(t *testing.T) {
	for name, g := range map[string]*hypervisor.Guest{
		"no guest exists":               nil,
		"the guest has the new id":      {ID: "m1", Server: "s1"},
		"the guest has the former name": {ID: "s1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t)
			d.settle(nil)
			d.disk = d.disk.With(journal.Renamed("s1", "m1", false))
			if g != nil {
				d.guests[g.ID] = *g
			}
			d.start()
			d.settle(nil)
			d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c",
				Position: host.Position{Epoch: 1, EpochID: "e", Revision: 1}, Remove: []host.Removal{{ID: "s1"}}}})
			d.settle(nil)
			if d.phase() != host.Gone || len(d.state.core.LeavingIDs()) > 0 {
				t.Errorf("phase %q, still leaving %v", d.phase(), d.state.core.LeavingIDs())
			}
			if r := d.disk.Renames()["m1"]; r.Was != "" && !r.Done {
				t.Errorf("the rename is not finished: %+v", r)
			}
			if _, kept := d.guests["m1"]; kept != (g != nil) || d.guests["s1"].ID != "" {
				t.Errorf("guests %+v: a guest that no assignment names is kept", d.guests)
			}
		})
	}
}
