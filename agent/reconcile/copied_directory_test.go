package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// A start that a previous one precludes waits once. If it is refused again, the previous one lives: the agent ends,
// because two starts of one journal mean that its directory was copied.
func TestStartOfCopiedDirectoryEnds(t *testing.T) {
	isAdmit := func(e state.Effect) bool { _, is := e.(state.Admit); return is }
	occupied := func(wait time.Duration) error {
		refusal := fault.New(fault.Conflict, "another agent serves the host")
		return fault.New(fault.Conflict, "%w", &host.Occupied{Wait: wait, Err: refusal})
	}
	ends := func(d *driver, wait time.Duration) bool {
		t.Helper()
		if !slices.ContainsFunc(d.pending, isAdmit) {
			t.Fatalf("no admission is requested, pending %v", d.pending)
		}
		d.pending = slices.DeleteFunc(d.pending, isAdmit)
		effects := d.state.Next(state.Admitted{Err: occupied(wait)}, d.now)
		return slices.ContainsFunc(effects, func(e state.Effect) bool { _, is := e.(state.Stop); return is })
	}
	d := newDriver(t)
	d.settle(isAdmit)
	if ends(d, time.Minute) {
		t.Error("the agent does not wait for the previous start")
	}
	d.advanceTime(time.Minute, isAdmit)
	if ends(d, time.Second) {
		t.Error("the agent ends although the wait was only measured too short")
	}
	d.advanceTime(time.Second, isAdmit)
	if !ends(d, 50*time.Second) {
		t.Error("the agent waits for a start that lives")
	}
}
