package reconcile

import (
	"slices"
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// A guest report is sent to compute before compute restarts on a restored database, and its answer arrives after the
// first assignments of the restarted compute. The restored database may lack the report, so it is sent again.
func TestReportAnsweredAfterARestartOfComputeIsSentAgain(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	running := func(e state.Effect) bool {
		r, is := e.(state.ReportGuest)
		return is && r.Guest.Phase == host.Running
	}
	d.settle(running)
	i := slices.IndexFunc(d.pending, running)
	if i < 0 {
		t.Fatalf("no report of the guest is in progress: %v", d.pending)
	}
	again := host.Assignments{Cloud: "c", Position: host.Position{Epoch: 2, EpochID: "restarted", Revision: 2},
		Past: &host.Position{Epoch: 1, EpochID: "e", Revision: 1}}
	for _, s := range d.state.core.Assignments.Servers {
		again.Servers = append(again.Servers, s)
	}
	d.deliver(state.Received{Assignments: again})
	before := len(d.reports)
	d.settle(nil)
	if n := len(d.reports) - before; n != 2 || d.phase() != host.Running {
		t.Errorf("%d reports, the last of phase %s; want the one in progress and another", n, d.phase())
	}
}
