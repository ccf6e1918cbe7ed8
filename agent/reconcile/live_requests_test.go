package reconcile

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// migrating returns a driver whose guest s1 is being migrated, and what assigns that migration with another request.
func migrating(t *testing.T) (d *driver, request func(change func(*host.Outgoing))) {
	t.Helper()
	d = newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(nil)
	has := d.guests["s1"].Devices[0].ID.String()
	revision := int64(1)
	request = func(change func(*host.Outgoing)) {
		t.Helper()
		revision++
		to := &host.Outgoing{Host: "cmp2", Devices: map[string]string{has: "0000:90:00.0"}}
		change(to)
		d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
			Revision: revision}, Servers: []host.Server{{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64, Outgoing: to,
			Requests: []host.Request{{ID: "r-s1", Alias: "gpu", Count: 1, VendorID: "10de", Class: testClass}}}}}})
		d.settle(isMigrate)
	}
	request(func(*host.Outgoing) {})
	if !slices.ContainsFunc(d.pending, isMigrate) {
		t.Fatal("the guest is not being migrated")
	}
	return d, request
}

func isMigrate(e state.Effect) bool {
	_, is := e.(state.Migrate)
	return is
}

// endMigration ends the migration in progress as one that was cancelled, after the guest has departed or not.
func (d *driver) endMigration(departed bool) {
	d.t.Helper()
	i := slices.IndexFunc(d.pending, isMigrate)
	if i < 0 {
		d.t.Fatal("no migration is in progress")
	}
	d.pending = slices.Delete(d.pending, i, i+1)
	g := d.guests["s1"]
	g.Departed = departed
	d.guests["s1"] = g
	d.deliver(state.WorkDone{Work: "s1", Err: fault.New(fault.Unavailable, "cancelled")})
	d.settle(isMigrate)
}

// An aborted live migration is cancelled. Whether the guest has departed is what the hypervisor reports afterwards.
func TestAbortedLiveMigration(t *testing.T) {
	abort := func(o *host.Outgoing) { o.Abort = true }
	for _, c := range []struct {
		departed bool
		want     host.Phase
	}{{false, host.Failed}, {true, host.Departed}} {
		d, request := migrating(t)
		request(abort)
		d.endMigration(c.departed)
		if last := d.reports[len(d.reports)-1]; last.Phase != c.want || d.guests["s1"].Departed != c.departed ||
			!c.departed && !strings.Contains(last.Message, "aborted") {
			t.Errorf("departed %t: reported %+v", c.departed, last)
		}
	}
	d, request := migrating(t) // and the agent is killed before the abort arrives
	d.start()
	d.settle(isMigrate)
	request(abort)
	if d.phase() != host.Failed || slices.ContainsFunc(d.pending, isMigrate) {
		t.Errorf("after kill -9: reported %+v", d.reports[len(d.reports)-1])
	}
}

// A live migration whose completion is forced is not interrupted. One that begins later is forced from its beginning.
func TestForcedLiveMigration(t *testing.T) {
	force := func(o *host.Outgoing) { o.Force = true }
	d, request := migrating(t)
	request(force)
	if !slices.Equal(d.signals, []state.Effect{state.Force{Work: "s1"}}) || !slices.ContainsFunc(d.pending, isMigrate) {
		t.Errorf("the migration in progress got %v", d.signals)
	}
	d.settle(nil)
	if d.phase() != host.Departed {
		t.Errorf("reported %+v", d.reports[len(d.reports)-1])
	}
	d, request = migrating(t)
	d.start()
	d.settle(isMigrate)
	request(force)
	if i := slices.IndexFunc(d.pending, isMigrate); i < 0 || !d.pending[i].(state.Migrate).Force {
		t.Errorf("after kill -9: %v", d.pending)
	}
}
