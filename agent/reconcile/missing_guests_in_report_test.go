package reconcile

import (
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// A guest that was built here and that the hypervisor does not list may exist: it stays in the host report, so that
// compute lets no other host build a guest of its server after a restore of its database. It is not reported any more
// when it was removed.
func TestMissingGuestStaysInHostReport(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.sendServers(1, host.Server{ID: "s1"})
	reported := func(when string, want ...host.Present) {
		t.Helper()
		got := d.state.Report().Guests
		if len(got) != len(want) || len(want) == 1 && got[0] != want[0] {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	g := d.guests["s1"]
	delete(d.guests, "s1")
	d.start()
	d.settle(nil)
	reported("after a start with an incomplete list", host.Present{ID: "s1"})
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
		Revision: 2}}})
	d.settle(nil)
	reported("when the assignments do not mention it", host.Present{ID: "s1"})
	d.guests["s1"] = g
	d.advanceTime(2*d.state.core.Config.Rescan, nil)
	reported("when it is listed again", host.Present{ID: "s1"})
	delete(d.guests, "s1")
	d.advanceTime(2*d.state.core.Config.Rescan, nil)
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Remove: []host.Removal{{ID: "s1"}},
		Position: host.Position{Epoch: 1, EpochID: "e", Revision: 3}}})
	d.settle(nil)
	reported("when it was removed")
}
