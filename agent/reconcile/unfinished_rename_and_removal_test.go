package reconcile

import (
	"slices"
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

// While the agent finishes a rename that the assignments do not mention, it reports the guest as not assigned. So
// compute, whose database was restored to before the move, places the server on no other host.
func TestGuestOfUnfinishedRenameIsNotReportedAsAssigned(t *testing.T) {
	moves := []host.Server{{ID: "m1", Server: "s1", PreviousID: "s1", Name: "name", VCPUs: 1, MemoryMB: 64}}
	for name, c := range map[string]struct {
		guest    string
		servers  []host.Server
		assigned bool
	}{
		"the guest has the former id, and no assignments mention it": {"s1", nil, false},
		"the guest has the new id, and no assignments mention it":    {"m1", nil, false},
		"the guest has the former id":                                {"s1", moves, true},
		"the guest has the new id":                                   {"m1", moves, true},
	} {
		d := newDriver(t)
		d.settle(nil)
		d.disk = d.disk.With(journal.Renamed("s1", "m1", false))
		d.guests[c.guest] = hypervisor.Guest{ID: c.guest, Server: "s1"}
		d.start()
		d.settle(nil)
		d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Servers: c.servers,
			Position: host.Position{Epoch: 1, EpochID: "e", Revision: 1}}})
		working := 0
		for next := 0; next >= 0; { // also while the rename is in progress
			if present := d.state.Report().Guests; len(present) != 1 || present[0].Assigned != c.assigned {
				t.Errorf("%s: the report has %+v", name, present)
			}
			next = slices.IndexFunc(d.pending, func(e state.Effect) bool { _, is := e.(state.Watch); return !is })
			if next >= 0 {
				d.perform(next)
				working++
			}
		}
		if r := d.disk.Renames()["m1"]; !r.Done || working == 0 {
			t.Errorf("%s: after %d effects the rename is %+v", name, working, r)
		}
	}
}
