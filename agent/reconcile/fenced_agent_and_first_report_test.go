package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A host report that compute refuses because another agent serves the host is followed by no guest report.
func TestAFencedAgentReportsNoGuest(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(nil)
	isHostReport := func(e state.Effect) bool { _, is := e.(state.ReportHost); return is }
	d.assign(2)
	d.settle(isHostReport)
	if !d.state.works.AwaitingReport() {
		t.Fatalf("no attempt waits for a host report, pending %v", d.pending)
	}
	d.pending = slices.DeleteFunc(d.pending, isHostReport)
	d.deliver(state.HostReported{Err: fault.New(fault.Conflict, "another agent serves the host")})
	if i := slices.IndexFunc(d.pending, func(e state.Effect) bool { return state.WorkOf(e) != "" }); i >= 0 {
		t.Errorf("%#v follows", d.pending[i])
	}
	d.advanceTime(time.Minute, nil)
	if d.phase() != host.Gone {
		t.Errorf("phase %s after the agent is admitted again", d.phase())
	}
}

// The first report follows the first sync, also when another sync is due then.
func TestTheFirstReportWaitsForOneSync(t *testing.T) {
	d := newDriver(t)
	writes := func(e state.Effect) bool { _, is := e.(state.WriteProvider); return is }
	d.settle(writes)
	d.deliver(state.DevicesChanged{})
	d.settle(func(e state.Effect) bool { _, is := e.(state.Observe); return is })
	if d.hostReports == 0 {
		t.Errorf("no host report, pending %v", d.pending)
	}
}

// An agent that is admitted again reports its guests: the other agent may have reported that they do not run.
func TestAnAgentThatIsAdmittedAgainReportsItsGuests(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(nil)
	before := len(d.reports)
	d.deliver(state.HostReported{Err: fault.New(fault.Conflict, "another agent serves the host")})
	d.advanceTime(10*time.Minute, nil)
	if len(d.reports) == before || d.phase() != host.Running {
		t.Errorf("%d reports more, phase %s", len(d.reports)-before, d.phase())
	}
}
