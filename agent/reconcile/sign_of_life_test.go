package reconcile

import (
	"testing"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// running returns a driver whose agent serves its host and has followed assignments.
func running(t *testing.T) *driver {
	t.Helper()
	d := newDriver(t)
	d.settle(nil)
	d.deliver(state.Received{Assignments: host.Assignments{Position: host.Position{Epoch: 1, EpochID: "e", Revision: 1}}})
	d.settle(nil)
	return d
}

// pass lets time pass.
func (d *driver) pass(duration time.Duration) { d.advanceTime(duration, nil) }

func TestSignsOfLifeBetweenReports(t *testing.T) {
	d := running(t)
	d.pass(3 * time.Second)
	before, reports := len(d.alive), d.hostReports
	d.pass(10 * time.Minute)
	beats, sent := len(d.alive)-before, d.hostReports-reports
	if sent < 8 || beats < 40 || beats > 60 {
		t.Errorf("%d signs of life and %d reports in ten minutes; want one of both every ten seconds", beats, sent)
	}
}

func TestFollowedAssignmentsAreAcknowledged(t *testing.T) {
	d := running(t)
	d.pass(5 * time.Second)
	next := host.Position{Epoch: 1, EpochID: "e", Revision: 7}
	d.deliver(state.Received{Assignments: host.Assignments{Position: next}})
	d.settle(nil)
	d.pass(2 * time.Second)
	if len(d.alive) == 0 || d.alive[len(d.alive)-1].Position != next {
		t.Errorf("signs %+v do not acknowledge %+v", d.alive, next)
	}
}

// A sign of life means that compute knows the state of the host: after a report that failed none is sent.
func TestNoSignOfLifeWithoutReport(t *testing.T) {
	d := running(t)
	d.pass(time.Second)
	d.state.core.ReportChanged()
	for _, e := range d.state.Next(state.Tick{}, d.now) {
		if _, is := e.(state.ReportHost); is {
			d.deliver(state.HostReported{Err: fault.New(fault.Unavailable, "compute does not answer")})
		}
	}
	if d.state.reporter.failures != 1 {
		t.Fatal("no report has failed")
	}
	if at := d.state.vitality.deadline(); !at.IsZero() {
		t.Errorf("a sign of life is due at %s although the last report has failed", at)
	}
}

// Compute has restarted: it answers a sign of life with NotFound and gets the report.
func TestSignOfLifeNotFoundSendsReport(t *testing.T) {
	d := running(t)
	d.pass(time.Second)
	reports := d.hostReports
	d.state.vitality.sending = true
	d.deliver(state.AliveSent{Err: fault.New(fault.NotFound, "no report")})
	d.settle(nil)
	if d.hostReports != reports+1 {
		t.Errorf("%d reports after the answer, want 1", d.hostReports-reports)
	}
}

// Another agent serves the host: this one changes nothing until compute accepts its report.
func TestSignOfLifeConflictFences(t *testing.T) {
	d := running(t)
	d.state.vitality.sending = true
	d.deliver(state.AliveSent{Err: fault.New(fault.Conflict, "another agent serves the host")})
	if !d.state.core.Fenced {
		t.Error("the agent is not fenced")
	}
}
