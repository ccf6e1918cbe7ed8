package reconcile

import (
	"fmt"
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

// A move is given up, the agent renames the guest back, and another move with the same ids has begun meanwhile, which a
// report of before has answered: the assignments have the guest by the id of the migration and name no former id. The
// agent renames the guest again, also while the rename back is in progress, and after it was done.
func TestSecondMoveThatAnOldReportHasAnswered(t *testing.T) {
	for n := range 4 {
		done, devices := n%2 > 0, n/2
		t.Run(fmt.Sprintf("renamed back %t, %d devices", done, devices), func(t *testing.T) {
			d := newDriver(t)
			d.settle(nil)
			gpu := []host.Request{{ID: "r-s1", Alias: "gpu", Count: 1, VendorID: "10de", Class: testClass}}
			line := func(revision int64, id, was string) {
				t.Helper()
				d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1,
					EpochID: "e", Revision: revision}, Servers: []host.Server{{ID: id, Server: "s1", PreviousID: was, Name: "s1",
					VCPUs: 1, MemoryMB: 64, Requests: gpu[:devices]}}}})
			}
			line(1, "s1", "")
			d.settle(nil)
			line(2, "m1", "s1")
			d.settle(nil)
			line(3, "s1", "m1")
			if done {
				d.settle(nil)
			}
			line(4, "m1", "")
			line(4, "m1", "")
			d.settle(nil)
			if _, there := d.guests["m1"]; !there || len(d.guests) != 1 || d.phase() != host.Running {
				t.Errorf("guests %v, phase %s", d.guests, d.phase())
			}
			if claims, _ := d.disk.Of("m1"); len(claims) != devices || len(d.disk.Claims()) != devices {
				t.Errorf("claims %v", d.disk.Claims())
			}
			line(5, "s1", "m1")
			d.settle(nil)
			if _, there := d.guests["s1"]; !there || len(d.guests) != 1 {
				t.Errorf("after the second move was given up: guests %v", d.guests)
			}
		})
	}
}
