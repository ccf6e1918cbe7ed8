package reconcile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// assignIncoming delivers the assignments of one server with a device that arrives by live migration.
func (d *driver) assignIncoming(revision int64) {
	d.t.Helper()
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
		Revision: revision}, Servers: []host.Server{{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64, Incoming: true,
		Requests: []host.Request{{ID: "r", Alias: "gpu", Count: 1, VendorID: "10de", Class: testClass}}}}}})
}

// The host is prepared for a guest that arrives by live migration, with the devices that it will have, before its claim
// is reported: then the source migrates it.
func TestHostIsPreparedBeforeTheClaimIsReported(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assignIncoming(1)
	d.settle(func(e state.Effect) bool { _, is := e.(state.Receive); return is })
	if len(d.reports) > 0 {
		t.Fatalf("reported before the host is prepared: %+v", d.reports)
	}
	d.settle(nil)
	if g := d.received["s1"]; len(g.Devices) != 1 || d.phase() != host.Claimed || len(d.guests) > 0 {
		t.Errorf("prepared %+v, phase %s, guests %+v", g, d.phase(), d.guests)
	}
}

// The effects before a guest starts, or arrives by live migration, have the sets of its devices that agree in a
// property, with their values. A guest that runs already, or must not run, has none.
func TestSetsOfGuestsThatStart(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	server := host.Server{ID: "s1", Name: "s1", VCPUs: 1, MemoryMB: 64, Requests: []host.Request{{ID: "r", Alias: "gpu",
		Count: 1, VendorID: "10de", Class: testClass, Match: &host.RequestMatch{Set: 1, Family: "fabric", Times: 1}}}}
	revision := int64(0)
	effects := func(want host.Server) (list []string) {
		revision++
		d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
			Revision: revision}, Servers: []host.Server{want}}})
		seen := map[string]bool{}
		d.settle(func(e state.Effect) bool {
			var sets []device.MatchedSet
			switch e := e.(type) {
			case state.Receive:
				sets = e.Sets
			case state.Build:
				sets = e.Sets
			default:
				return false
			}
			text := fmt.Sprintf("%T", e)
			for _, s := range sets {
				text += fmt.Sprint(" ", s.Property, " ", s.Value, " ", len(s.Devices))
			}
			if !seen[text] {
				seen[text], list = true, append(list, text)
			}
			return false
		})
		return list
	}
	check := func(what, want string) {
		t.Helper()
		if got := strings.Join(effects(server), ", "); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	server.Incoming = true
	check("incoming", "state.Receive fabric p1-0 1")
	server.Incoming = false
	check("it has not arrived", "state.Build fabric p1-0 1")
	server.Interfaces = []host.Interface{{Port: "p", MAC: "fa:16:3e:00:00:01", VIF: "bridge", VNIC: "normal"}}
	check("an interface", "state.Build")
	server.Power = host.Off
	check("off", "state.Build")
	server.Power = host.On
	check("on", "state.Build fabric p1-0 1")
}

// What was prepared is removed when compute no longer mentions the server, and when it names it for removal.
func TestPreparationIsRemoved(t *testing.T) {
	for _, named := range []bool{false, true} {
		d := newDriver(t)
		d.settle(nil)
		d.assignIncoming(1)
		d.settle(nil)
		gone := host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e", Revision: 2}}
		if named {
			gone.Remove = []host.Removal{{ID: "s1"}}
		}
		d.deliver(state.Received{Assignments: gone})
		d.settle(nil)
		if len(d.received) > 0 || d.phase() != host.Gone || len(d.disk.Claims()) > 0 {
			t.Errorf("named %v: prepared %+v, phase %s, claims %v", named, d.received, d.phase(), d.disk.Claims())
		}
	}
}

// A host that cannot be prepared is reported as failed, so that compute tries another one.
func TestUnpreparedHostFails(t *testing.T) {
	d := newDriver(t)
	d.refuses = fault.New(fault.Conflict, "the image is larger than the disk")
	d.settle(nil)
	d.assignIncoming(1)
	d.settle(nil)
	if d.phase() != host.Failed || !strings.Contains(d.reports[len(d.reports)-1].Message, "larger than the disk") ||
		len(d.disk.Claims()) > 0 {
		t.Errorf("reports %+v, claims %v", d.reports, d.disk.Claims())
	}
}

// A guest that has arrived stays as it is while compute does not know that yet, as after its database was restored from
// a backup of before: the assignment may not have the devices of the ports.
func TestGuestThatHasArrivedKeepsItsInterfaces(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assignIncoming(1)
	d.settle(nil)
	g := d.received["s1"]
	g.Interfaces = []hypervisor.Interface{{Port: "p", VIF: "hw_veb", VNIC: "direct", Device: g.Devices[0].ID}}
	d.guests["s1"] = g
	d.start()
	d.settle(nil)
	d.assignIncoming(2)
	d.settle(func(e state.Effect) bool { _, is := e.(state.Build); return is })
	if d.phase() != host.Running || len(d.guests["s1"].Interfaces) != 1 || len(d.pending) != 1 {
		t.Errorf("phase %s, guest %+v, pending %v", d.phase(), d.guests["s1"], d.pending)
	}
}
