package reconcile

import (
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// A move is given up and another one begins before the agent receives the assignments in between. The assignments of
// both moves are equal, and compute waits for the report of the guest under the new id. The agent sends it again.
func TestSecondMoveWithTheSameIDsIsReported(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(nil)
	moved := func(revision int64) (reports int) {
		t.Helper()
		before := len(d.reports)
		d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
			Revision: revision}, Servers: []host.Server{{ID: "m1", Server: "s1", PreviousID: "s1", Name: "s1", VCPUs: 1,
			MemoryMB: 64, Requests: []host.Request{{ID: "r-s1", Alias: "gpu", Count: 1, VendorID: "10de",
				Class: testClass}}}}}})
		d.settle(nil)
		return len(d.reports) - before
	}
	if n := moved(2); n != 1 || d.phase() != host.Running {
		t.Fatalf("%d reports of the first move, phase %s", n, d.phase())
	}
	if n := moved(2); n != 0 {
		t.Errorf("%d reports after the same assignments", n)
	}
	if n := moved(5); n != 1 || d.phase() != host.Running {
		t.Errorf("%d reports of the second move, phase %s", n, d.phase())
	}
}
