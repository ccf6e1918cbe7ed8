package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// While a write of the journal is in progress, the agent sends its reports and builds nothing; then it continues.
func TestASlowDiskDelaysNoReport(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	if d.state.phase != serving {
		t.Fatalf("phase %d", d.state.phase)
	}
	before := d.hostReports
	d.assign(1, "s1")
	d.settle(isWrite)
	d.advanceTime(10*time.Minute, isWrite)
	if n := d.hostReports - before; n < 10 || len(d.guests) > 0 || len(d.reports) > 0 {
		t.Errorf("%d host reports in ten minutes, guests %v, guest reports %v", n, d.guests, d.reports)
	}
	if r := d.state.Report(); r.Position != (host.Position{}) {
		t.Errorf("position %+v is reported and not durable", r.Position)
	}
	d.settle(nil)
	if d.phase() != host.Running || len(d.guests) != 1 || d.state.Report().Position.Revision != 1 {
		t.Errorf("phase %s, guests %v", d.phase(), d.guests)
	}
}

// A failed write is repeated with all entries, a condition gives the reason until it succeeds, and until then no guest
// is built.
func TestAFailedJournalWriteIsRepeated(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(isWrite)
	var first []journal.Entry
	for range 4 {
		i := slices.IndexFunc(d.pending, isWrite)
		if i < 0 {
			t.Fatal("the write is not repeated")
		}
		entries := d.pending[i].(state.WriteJournal).Entries
		if len(entries) < len(first) {
			t.Errorf("%d entries after %d", len(entries), len(first))
		}
		first = entries
		d.pending = slices.Delete(d.pending, i, i+1)
		d.deliver(state.Written{Err: fault.New(fault.Unavailable, "the disk is full")})
		d.settle(isWrite)
		text := strings.Join(condition.Texts(d.state.Report().Conditions), "\n")
		if !strings.Contains(text, "the disk is full") {
			t.Errorf("conditions %s", text)
		}
		if len(d.guests) > 0 {
			t.Errorf("guests %v", d.guests)
		}
		d.advanceTime(16*time.Second, isWrite)
	}
	d.settle(nil)
	if text := strings.Join(condition.Texts(d.state.Report().Conditions), "\n"); d.phase() != host.Running || text != "" {
		t.Errorf("phase %s, conditions %s", d.phase(), text)
	}
}

// An effect that is held until the journal is written is not performed when the assignments change before.
func TestAHeldEffectIsCancelled(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(func(e state.Effect) bool { return isWrite(e) && len(d.state.core.Set.Claims()) > 0 })
	if len(d.state.core.Set.Claims()) != 1 || len(d.disk.Claims()) > 0 {
		t.Fatalf("claims %v, on the disk %v", d.state.core.Set.Claims(), d.disk.Claims())
	}
	d.assign(2)
	d.settle(isWrite)
	d.settle(nil)
	if len(d.guests) > 0 || slices.ContainsFunc(d.reports, func(g host.Guest) bool { return g.Phase == host.Claimed }) {
		t.Errorf("guests %v, reports %+v", d.guests, d.reports)
	}
	if d.phase() != host.Gone || len(d.disk.Claims()) > 0 {
		t.Errorf("phase %s, claims %v", d.phase(), d.disk.Claims())
	}
}

// An effect that a failed write holds is decided again: the guest is not built with a device that was replaced
// meanwhile.
func TestAFailedJournalWriteEndsWaitingAttempts(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	isReport := func(e state.Effect) bool { _, is := e.(state.ReportGuest); return is }
	d.settle(isReport)
	d.assign(2, "s1") // a position to write
	d.perform(slices.IndexFunc(d.pending, isReport))
	if len(d.state.core.Held) == 0 {
		t.Fatalf("the build does not wait for the journal: %v", d.pending)
	}
	d.pending = slices.DeleteFunc(d.pending, isWrite)
	d.deliver(state.Written{Err: fault.New(fault.Unavailable, "the disk is full")})
	d.deliver(state.DevicesChanged{})
	d.pending = slices.DeleteFunc(d.pending, func(e state.Effect) bool { _, is := e.(state.Observe); return is })
	o := d.observe()
	for i := range o.Machine.Devices {
		o.Machine.Devices[i].Product = "ffff"
	}
	d.deliver(state.Observed{Observation: o})
	d.advanceTime(16*time.Second, isWrite)
	for len(d.guests) == 0 && slices.ContainsFunc(d.pending, isWrite) {
		d.perform(slices.IndexFunc(d.pending, isWrite))
		d.settle(isWrite)
	}
	if len(d.guests) > 0 || d.phase() != host.Failed {
		t.Errorf("guests %v, phase %s", d.guests, d.phase())
	}
}

// A plan that a failed write holds is discarded: the host is observed again while the journal cannot be written.
func TestAFailedJournalWriteEndsASync(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(nil)
	d.assign(2, "s1") // a position to write
	root, _ := d.tree.Root()
	root.Traits = nil
	d.tree = provider.Tree{Providers: []provider.Provider{root}}
	d.deliver(state.DevicesChanged{})
	d.settle(isWrite)
	if len(d.state.core.Held) == 0 {
		t.Fatalf("the plan does not wait for the journal: %v", d.pending)
	}
	d.pending = slices.DeleteFunc(d.pending, isWrite)
	d.deliver(state.Written{Err: fault.New(fault.Unavailable, "the disk is full")})
	delete(d.guests, "s1")
	d.advanceTime(2*time.Minute, isWrite)
	if guests := d.state.core.Guests; len(guests) > 0 {
		t.Errorf("guests %v were observed", guests)
	}
	d.settle(nil)
	d.advanceTime(2*time.Minute, nil)
	if root, _ = d.tree.Root(); len(root.Traits) == 0 || len(d.guests) != 1 || len(d.state.Report().Conditions) > 0 {
		t.Errorf("tree %v, guests %v, conditions %v", d.tree, d.guests, d.state.Report().Conditions)
	}
}

func isWrite(e state.Effect) bool {
	_, is := e.(state.WriteJournal)
	return is
}

func isBuild(e state.Effect) bool {
	_, is := e.(state.Build)
	return is
}
