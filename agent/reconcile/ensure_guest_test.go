package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// newDriverWith returns a driver whose agent has started on a host with a guest.
func newDriverWith(t *testing.T, g hypervisor.Guest) *driver {
	t.Helper()
	d := newDriver(t)
	d.guests[g.ID] = g
	d.start()
	d.settle(nil)
	return d
}

// assignPlain delivers the assignment of a server without devices.
func (d *driver) assignPlain(id string) {
	d.t.Helper()
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
		Revision: 1},
		Servers: []host.Server{{ID: id, Name: id, VCPUs: 1, MemoryMB: 64}}}})
}

// A stopped guest is not started before compute has accepted a claim: the server may run on another host.
func TestStoppedGuestIsClaimedBeforeItStarts(t *testing.T) {
	d := newDriverWith(t, hypervisor.Guest{ID: "s1", Stopped: true})
	d.assignPlain("s1")
	d.settle(func(e state.Effect) bool { _, is := e.(state.ReportGuest); return is })
	claims := func(e state.Effect) bool { r, is := e.(state.ReportGuest); return is && r.Guest.Phase == host.Claimed }
	if !slices.ContainsFunc(d.pending, claims) || !d.guests["s1"].Stopped {
		t.Fatalf("pending %+v, guests %+v: the claim must precede the start", d.pending, d.guests)
	}
	d.settle(nil)
	if d.guests["s1"].Stopped || d.phase() != host.Running {
		t.Errorf("the guest was not started: %+v, reports %+v", d.guests, d.reports)
	}
}

// A guest is built with what the image of its server chooses.
func TestGuestIsBuiltWithItsHardware(t *testing.T) {
	d := newDriver(t)
	d.start()
	d.settle(nil)
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
		Revision: 1}, Servers: []host.Server{{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64,
		Hardware: host.Hardware{DiskBus: "sata", NICModel: "e1000", Video: "vga", GuestAgent: true,
			Firmware: "uefi", SecureBoot: "optional"}}}}})
	d.settle(nil)
	want := hypervisor.Hardware{DiskBus: "sata", NICModel: "e1000", Video: "vga", GuestAgent: true,
		Firmware: "uefi", SecureBoot: "optional"}
	if got := d.guests["s1"].Hardware; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A server that has another guest on the host is not claimed before compute has a report of that guest.
func TestOtherGuestIsReportedBeforeTheClaim(t *testing.T) {
	d := newDriverWith(t, hypervisor.Guest{ID: "m1", Server: "s1"})
	d.assignPlain("s1")
	d.settle(func(e state.Effect) bool { _, is := e.(state.ReportHost); return is })
	if len(d.reports) > 0 {
		t.Fatalf("reports %+v: the claim must follow the host report", d.reports)
	}
	d.settle(nil)
	if len(d.reports) == 0 || d.reports[0].Phase != host.Claimed {
		t.Errorf("the server was not claimed: %+v", d.reports)
	}
}

// A guest that was observed half built is not a guest that existed before its build: when the build fails, the server
// fails.
func TestAFailedBuildOfAnObservedGuest(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(isBuild)
	build := d.pending[slices.IndexFunc(d.pending, isBuild)].(state.Build)
	d.guests["s1"] = build.Guest
	d.deliver(state.DevicesChanged{})
	d.settle(isBuild)
	if len(d.state.core.Guests) != 1 {
		t.Fatalf("observed %v", d.state.core.Guests)
	}
	d.endBuild(fault.New(fault.Invalid, "no such image"))
	d.settle(nil)
	if d.phase() != host.Failed || len(d.guests) > 0 || len(d.disk.Claims()) > 0 {
		t.Errorf("phase %s, guests %v, claims %v", d.phase(), d.guests, d.disk.Claims())
	}
}

// A guest that was observed half built, and whose build then failed for a while, was not built here: the next attempt
// makes its disk.
func TestARepeatedBuildOfAnObservedGuest(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(isBuild)
	d.guests["s1"] = d.pending[slices.IndexFunc(d.pending, isBuild)].(state.Build).Guest
	d.deliver(state.DevicesChanged{})
	d.settle(isBuild)
	delete(d.guests, "s1") // the hypervisor has removed what is not complete
	d.endBuild(fault.New(fault.Unavailable, "no space left on device"))
	d.deliver(state.DevicesChanged{})
	for range 20 {
		if i := slices.IndexFunc(d.pending, isBuild); i >= 0 {
			if d.pending[i].(state.Build).Guest.Kept {
				t.Error("the guest counts as one that was built here")
			}
			return
		}
		d.settle(isBuild)
		d.advanceTime(10*time.Second, isBuild)
	}
	t.Error("the build is not repeated")
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
	d.deliver(state.DevicesChanged{})
	d.settle(isBuild)
	delete(d.guests, "s1")
	d.deliver(state.DevicesChanged{})
	d.settle(isBuild)
	if len(d.state.core.Guests) != 0 {
		t.Fatalf("observed %v", d.state.core.Guests)
	}
	d.endBuild(fault.New(fault.Invalid, "no such guest"))
	d.settle(nil)
	d.advanceTime(10*time.Second, nil)
	failed := slices.ContainsFunc(d.reports, func(g host.Guest) bool { return g.Phase == host.Failed })
	if failed || d.phase() != host.Running || len(d.guests) != 1 {
		t.Errorf("phase %s, guests %v, reports %+v", d.phase(), d.guests, d.reports)
	}
}

// A hypervisor that does not answer in time may have done what was requested: the agent observes its guests again at
// once, and not only at the next rescan.
func TestABuildWithoutAnswerIsObserved(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(isBuild)
	build := d.pending[slices.IndexFunc(d.pending, isBuild)].(state.Build)
	d.guests["s1"] = build.Guest
	observes := func(e state.Effect) bool { _, is := e.(state.Observe); return is }
	if slices.ContainsFunc(d.pending, observes) {
		t.Fatal("an observation is in progress already")
	}
	d.endBuild(fault.New(fault.Unavailable, "no answer in time"))
	if !slices.ContainsFunc(d.pending, observes) {
		t.Errorf("no observation begins: %+v", d.pending)
	}
	d.settle(nil)
	d.advanceTime(10*time.Second, nil)
	if d.phase() != host.Running || len(d.guests) != 1 {
		t.Errorf("phase %s, guests %v", d.phase(), d.guests)
	}
}

// endBuild ends the build in progress with a fault.
func (d *driver) endBuild(err error) {
	d.t.Helper()
	i := slices.IndexFunc(d.pending, isBuild)
	if i < 0 {
		d.t.Fatal("no build is in progress")
	}
	work := state.WorkOf(d.pending[i])
	d.pending = slices.Delete(d.pending, i, i+1)
	d.deliver(state.WorkDone{Work: work, Err: err})
}

// A guest with a device that the assigned live migration has no destination device for is not migrated: compute assigns
// the migration of an earlier guest, which had another device.
func TestAGuestWithoutDestinationDeviceIsNotMigrated(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1")
	d.settle(nil)
	has := d.guests["s1"].Devices[0].ID.String()
	outgoing := func(revision int64, device string) {
		t.Helper()
		d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
			Revision: revision}, Servers: []host.Server{{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64,
			Requests: []host.Request{{ID: "r-s1", Alias: "gpu", Count: 1, VendorID: "10de", Class: testClass}},
			Outgoing: &host.Outgoing{Host: "cmp2", Devices: map[string]string{device: "0000:90:00.0"}}}}}})
		d.settle(nil)
	}
	outgoing(2, "0000:8f:00.0")
	last := d.reports[len(d.reports)-1]
	if d.guests["s1"].Departed || last.Phase != host.Failed || !strings.Contains(last.Message, has) {
		t.Errorf("departed %v, reported %+v", d.guests["s1"].Departed, last)
	}
	outgoing(3, has)
	if !d.guests["s1"].Departed || d.phase() != host.Departed {
		t.Errorf("departed %v, phase %s", d.guests["s1"].Departed, d.phase())
	}
}
