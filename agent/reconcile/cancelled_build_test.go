package reconcile

import (
	"slices"
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A cancelled change of a guest may have had its effect, although the hypervisor returns an error: the host is observed
// again, so that the guest becomes what it is to be.
func TestCancelledBuildIsObserved(t *testing.T) {
	d := newDriver(t)
	power := func(revision int64, power host.Power) {
		d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
			Revision: revision}, Servers: []host.Server{{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64, Power: power}}}})
	}
	isBuild := func(e state.Effect) bool { _, is := e.(state.Build); return is }
	d.settle(nil)
	power(1, host.On)
	d.settle(nil)
	power(2, host.Off)
	d.settle(isBuild)
	i := slices.IndexFunc(d.pending, isBuild)
	if i < 0 {
		t.Fatalf("the guest is not stopped: %v", d.pending)
	}
	stop, _ := d.pending[i].(state.Build)
	power(3, host.On)
	d.pending = slices.Delete(d.pending, i, i+1)
	d.guests["s1"] = stop.Guest
	d.deliver(state.WorkDone{Work: state.WorkOf(stop), Err: fault.New(fault.Unavailable, "cancelled")})
	d.settle(nil)
	if d.guests["s1"].Stopped || d.phase() != host.Running {
		t.Errorf("guest %+v, phase %s", d.guests["s1"], d.phase())
	}
}
