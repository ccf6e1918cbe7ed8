package reconcile

import (
	"slices"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
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
	d.deliver(Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
		Revision: 1},
		Servers: []host.Server{{ID: id, Name: id, VCPUs: 1, MemoryMB: 64}}}})
}

// A stopped guest is not started before compute has accepted a claim: the server may run on another host.
func TestStoppedGuestIsClaimedBeforeItStarts(t *testing.T) {
	d := newDriverWith(t, hypervisor.Guest{ID: "s1", Stopped: true})
	d.assignPlain("s1")
	d.settle(func(e Effect) bool { _, is := e.(ReportGuest); return is })
	claims := func(e Effect) bool { r, is := e.(ReportGuest); return is && r.Guest.Phase == host.Claimed }
	if !slices.ContainsFunc(d.pending, claims) || !d.guests["s1"].Stopped {
		t.Fatalf("pending %+v, guests %+v: the claim must precede the start", d.pending, d.guests)
	}
	d.settle(nil)
	if d.guests["s1"].Stopped || d.phase() != host.Running {
		t.Errorf("the guest was not started: %+v, reports %+v", d.guests, d.reports)
	}
}

// A server that has another guest on the host is not claimed before compute has a report of that guest.
func TestOtherGuestIsReportedBeforeTheClaim(t *testing.T) {
	d := newDriverWith(t, hypervisor.Guest{ID: "m1", Server: "s1"})
	d.assignPlain("s1")
	d.settle(func(e Effect) bool { _, is := e.(ReportHost); return is })
	if len(d.reports) > 0 {
		t.Fatalf("reports %+v: the claim must follow the host report", d.reports)
	}
	d.settle(nil)
	if len(d.reports) == 0 || d.reports[0].Phase != host.Claimed {
		t.Errorf("the server was not claimed: %+v", d.reports)
	}
}
