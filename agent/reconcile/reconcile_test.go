package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

func isWrite(e Effect) bool {
	_, is := e.(WriteJournal)
	return is
}

// While the disk does not answer, the agent sends its reports and builds nothing; then it continues.
func TestASlowDiskDelaysNoReport(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	if d.state.phase != serving {
		t.Fatalf("phase %d", d.state.phase)
	}
	before := d.hosts
	d.assign(1, "s1")
	d.settle(isWrite)
	d.pass(10*time.Minute, isWrite)
	if n := d.hosts - before; n < 10 || len(d.guests) > 0 || len(d.reports) > 0 {
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
		entries := d.pending[i].(WriteJournal).Entries
		if len(entries) < len(first) {
			t.Errorf("%d entries after %d", len(entries), len(first))
		}
		first = entries
		d.pending = slices.Delete(d.pending, i, i+1)
		d.deliver(Written{Err: fault.New(fault.Unavailable, "test", "the disk is full")})
		d.settle(isWrite)
		if text := strings.Join(d.state.Report().Conditions, "\n"); !strings.Contains(text, "the disk is full") {
			t.Errorf("conditions %s", text)
		}
		if len(d.guests) > 0 {
			t.Errorf("guests %v", d.guests)
		}
		d.pass(16*time.Second, isWrite)
	}
	d.settle(nil)
	if text := strings.Join(d.state.Report().Conditions, "\n"); d.phase() != host.Running || text != "" {
		t.Errorf("phase %s, conditions %s", d.phase(), text)
	}
}

// An effect that is held until the journal is written is not performed when the assignments change before.
func TestAHeldEffectIsCancelled(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(func(e Effect) bool { return isWrite(e) && len(d.state.set.Claims()) > 0 })
	if len(d.state.set.Claims()) != 1 || len(d.disk.Claims()) > 0 {
		t.Fatalf("claims %v, on the disk %v", d.state.set.Claims(), d.disk.Claims())
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

// Servers come and go, effects end in any order, and the agent is ended between any two effects, with its last write
// done in part. In the end the guests, the disk and the assignments agree. The driver checks each effect.
func TestEffectsInAnyOrder(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 3))
			d := newDriver(t)
			var ids []string
			for step := range int64(300) {
				switch n := chance.IntN(20); {
				case n == 0 && slices.ContainsFunc(d.pending, isStream):
					ids = pick(chance, ids, step)
					d.assign(step+1, ids...)
				case n == 1:
					d.crash(chance)
				case n < 4:
					d.now = d.now.Add(time.Duration(chance.IntN(20_000)) * time.Millisecond)
					d.deliver(Tick{})
				case len(d.pending) > 0:
					if i := chance.IntN(len(d.pending)); !isStream(d.pending[i]) {
						d.perform(i)
					}
				}
			}
			d.pass(time.Minute, nil)
			d.assign(1000, ids...)
			d.pass(5*time.Minute, nil)
			if got := d.state.Report(); len(d.guests) != len(ids) || len(d.disk.Claims()) != len(ids) ||
				!slices.Equal(d.disk.Servers(), slices.Sorted(slices.Values(ids))) || len(got.Conditions) > 0 {
				t.Errorf("assigned %v, guests %v, disk %v, conditions %v", ids, d.guests, d.disk.Servers(), got.Conditions)
			}
		})
	}
}

func isStream(e Effect) bool {
	_, is := e.(Watch)
	return is
}

// pick returns another set of at most two servers, since the host has two devices.
func pick(chance *rand.Rand, ids []string, step int64) []string {
	var next []string
	for _, id := range ids {
		if chance.IntN(2) == 0 {
			next = append(next, id)
		}
	}
	for len(next) < 2 && chance.IntN(3) > 0 {
		next = append(next, fmt.Sprintf("s%d-%d", step, len(next)))
	}
	return next
}

// crash ends the agent. A part of the write in progress is on the disk, and effects on the host may have happened.
func (d *driver) crash(chance *rand.Rand) {
	d.t.Helper()
	for _, e := range d.pending {
		switch e := e.(type) {
		case WriteJournal:
			d.disk = d.disk.With(e.Entries[:chance.IntN(len(e.Entries)+1)]...)
		case Build:
			if chance.IntN(2) == 0 {
				d.guests[e.Guest.ID] = e.Guest
			}
		case Destroy:
			if chance.IntN(2) == 0 {
				delete(d.guests, e.ID)
			}
		}
	}
	d.start()
}

func isBuild(e Effect) bool {
	_, is := e.(Build)
	return is
}

// endBuild ends the build in progress with a fault.
func (d *driver) endBuild(err error) {
	d.t.Helper()
	i := slices.IndexFunc(d.pending, isBuild)
	if i < 0 {
		d.t.Fatal("no build is in progress")
	}
	work := WorkOf(d.pending[i])
	d.pending = slices.Delete(d.pending, i, i+1)
	d.deliver(WorkDone{Work: work, Err: err})
}

// A guest that was observed half built is not a guest that was there before its build: when the build fails, the server
// fails.
func TestAFailedBuildOfAnObservedGuest(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(isBuild)
	build := d.pending[slices.IndexFunc(d.pending, isBuild)].(Build)
	d.guests["s1"] = build.Guest
	d.deliver(DevicesChanged{})
	d.settle(isBuild)
	if len(d.state.guests) != 1 {
		t.Fatalf("observed %v", d.state.guests)
	}
	d.endBuild(fault.New(fault.Invalid, "test", "no such image"))
	d.settle(nil)
	if d.phase() != host.Failed || len(d.guests) > 0 || len(d.disk.Claims()) > 0 {
		t.Errorf("phase %s, guests %v, claims %v", d.phase(), d.guests, d.disk.Claims())
	}
}

// A guest that vanishes while it is changed is built again: its server does not fail.
func TestARefusedChangeOfAVanishedGuest(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(nil)
	for id, g := range d.guests {
		g.Stopped = true
		d.guests[id] = g
	}
	d.deliver(DevicesChanged{})
	d.settle(isBuild)
	delete(d.guests, "s1")
	d.deliver(DevicesChanged{})
	d.settle(isBuild)
	if len(d.state.guests) != 0 {
		t.Fatalf("observed %v", d.state.guests)
	}
	d.endBuild(fault.New(fault.Invalid, "test", "no such guest"))
	d.settle(nil)
	d.pass(10*time.Second, nil)
	failed := slices.ContainsFunc(d.reports, func(g host.Guest) bool { return g.Phase == host.Failed })
	if failed || d.phase() != host.Running || len(d.guests) != 1 {
		t.Errorf("phase %s, guests %v, reports %+v", d.phase(), d.guests, d.reports)
	}
}

// The first report follows the first sync, also when another sync is due then.
func TestTheFirstReportWaitsForOneSync(t *testing.T) {
	d := newDriver(t)
	writes := func(e Effect) bool { _, is := e.(WriteProvider); return is }
	d.settle(writes)
	d.deliver(DevicesChanged{})
	d.settle(func(e Effect) bool { _, is := e.(Observe); return is })
	if d.hosts == 0 {
		t.Errorf("no host report, pending %v", d.pending)
	}
}

// A host report that compute refuses because another agent serves the host lets no guest report follow.
func TestAFencedAgentReportsNoGuest(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(nil)
	isHostReport := func(e Effect) bool { _, is := e.(ReportHost); return is }
	d.assign(2)
	d.settle(isHostReport)
	if !d.state.works.awaitingReport() {
		t.Fatalf("no attempt waits for a host report, pending %v", d.pending)
	}
	d.pending = slices.DeleteFunc(d.pending, isHostReport)
	d.deliver(HostReported{Err: fault.New(fault.Conflict, "test", "another agent serves the host")})
	if i := slices.IndexFunc(d.pending, func(e Effect) bool { return WorkOf(e) != "" }); i >= 0 {
		t.Errorf("%#v follows", d.pending[i])
	}
	d.pass(time.Minute, nil)
	if d.phase() != host.Gone {
		t.Errorf("phase %s after the agent is admitted again", d.phase())
	}
}

// An effect that a failed write holds is decided again: the guest is not built with a device that was replaced
// meanwhile.
func TestAFailedJournalWriteEndsWaitingAttempts(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	isReport := func(e Effect) bool { _, is := e.(ReportGuest); return is }
	d.settle(isReport)
	d.assign(2, "s1") // a position to write
	d.perform(slices.IndexFunc(d.pending, isReport))
	if len(d.state.held) == 0 {
		t.Fatalf("the build does not wait for the journal: %v", d.pending)
	}
	d.pending = slices.DeleteFunc(d.pending, isWrite)
	d.deliver(Written{Err: fault.New(fault.Unavailable, "test", "the disk is full")})
	d.deliver(DevicesChanged{})
	d.pending = slices.DeleteFunc(d.pending, func(e Effect) bool { _, is := e.(Observe); return is })
	o := d.observe()
	for i := range o.Machine.Devices {
		o.Machine.Devices[i].Product = "ffff"
	}
	d.deliver(Observed{Observation: o})
	d.pass(16*time.Second, isWrite)
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
	d.deliver(DevicesChanged{})
	d.settle(isWrite)
	if len(d.state.held) == 0 {
		t.Fatalf("the plan does not wait for the journal: %v", d.pending)
	}
	d.pending = slices.DeleteFunc(d.pending, isWrite)
	d.deliver(Written{Err: fault.New(fault.Unavailable, "test", "the disk is full")})
	delete(d.guests, "s1")
	d.pass(2*time.Minute, isWrite)
	if guests := d.state.Report().Guests; len(guests) > 0 {
		t.Errorf("guests %v are reported", guests)
	}
	d.settle(nil)
	d.pass(2*time.Minute, nil)
	if root, _ = d.tree.Root(); len(root.Traits) == 0 || len(d.guests) != 1 || len(d.state.Report().Conditions) > 0 {
		t.Errorf("tree %v, guests %v, conditions %v", d.tree, d.guests, d.state.Report().Conditions)
	}
}

// Assignments with a server without an id are not followed, and a condition gives the reason.
func TestAServerWithoutAnIDIsRefused(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1", "")
	d.settle(nil)
	if text := strings.Join(d.state.Report().Conditions, "\n"); !strings.Contains(text, "a server without an id") ||
		len(d.guests) > 0 {
		t.Errorf("conditions %q, guests %v", text, d.guests)
	}
	d.assign(2, "s1")
	d.settle(nil)
	if d.phase() != host.Running || len(d.state.Report().Conditions) > 0 {
		t.Errorf("phase %s, conditions %v", d.phase(), d.state.Report().Conditions)
	}
}
