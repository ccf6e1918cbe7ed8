package reconcile

import (
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// sendServers delivers assignments of servers without devices.
func (d *driver) sendServers(revision int64, servers ...host.Server) {
	d.t.Helper()
	for i := range servers {
		servers[i].Name, servers[i].VCPUs, servers[i].MemoryMB = "name", 1, 64
	}
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Servers: servers,
		Position: host.Position{Epoch: 1, EpochID: "e", Revision: revision}}})
	d.settle(nil)
}

// moving returns a driver whose guest s1 is the source of a move, as m1.
func moving(t *testing.T) *driver {
	t.Helper()
	d := newDriver(t)
	d.settle(nil)
	d.sendServers(1, host.Server{ID: "s1"})
	d.sendServers(2, host.Server{ID: "m1", Server: "s1", PreviousID: "s1"})
	d.sendServers(3, host.Server{ID: "m1", Server: "s1"})
	if len(d.guests) != 1 || d.guests["m1"].Server != "s1" {
		t.Fatalf("guests %+v", d.guests)
	}
	d.guests["m1"] = withImage(d.guests["m1"], "disk of the server")
	return d
}

// withImage returns a guest with another image, by which tests recognise it.
func withImage(g hypervisor.Guest, image string) hypervisor.Guest {
	g.Image = image
	return g
}

// late is a guest of s1 that is built after its server had left or had got another id.
var late = hypervisor.Guest{ID: "s1", Name: "name", VCPUs: 1, MemoryMB: 64, Stopped: true, Image: "late"}

// A request to build s1 whose answer was lost is executed while its guest is the source of a move, so that it has
// another id. The late guest is destroyed, also after a restart.
func TestGuestThatIsBuiltLateBesideTheSourceOfAMove(t *testing.T) {
	for _, restart := range []bool{false, true} {
		d := moving(t)
		d.guests["s1"] = late
		if restart {
			d.start()
			d.settle(nil)
			d.sendServers(3, host.Server{ID: "m1", Server: "s1"})
		}
		d.advanceTime(2*d.state.core.Config.Rescan, nil)
		if g := d.guests["m1"]; len(d.guests) != 1 || g.Image != "disk of the server" {
			t.Errorf("restart %v: guests %+v", restart, d.guests)
		}
		if list := d.state.works.Unassigned(); len(list) > 0 {
			t.Errorf("restart %v: unassigned %v", restart, list)
		}
	}
}

// The move is reverted, so that its source takes the id of the server again, which a late guest has: the late guest is
// destroyed, and the source keeps its disk. It may appear before or after the agent has begun the rename.
func TestGuestThatIsBuiltLateDoesNotStopARename(t *testing.T) {
	back := host.Server{ID: "s1", PreviousID: "m1"}
	for name, appear := range map[string]func(*driver){
		"before": func(d *driver) {
			d.guests["s1"] = late
			d.sendServers(4, back)
		},
		"before, and the agent starts again": func(d *driver) {
			d.guests["s1"] = late
			d.start()
			d.settle(nil)
			d.sendServers(4, back)
		},
		"after the rename has begun": func(d *driver) {
			d.disk = d.disk.With(journal.Renamed("m1", "s1", false))
			d.guests["s1"] = late
			d.start()
			d.settle(nil)
			d.sendServers(4, back)
		},
		"after the rename has begun, which the assignments do not mention": func(d *driver) {
			d.disk = d.disk.With(journal.Renamed("m1", "s1", false))
			d.guests["s1"] = late
			d.start()
			d.settle(nil)
			d.sendServers(4, host.Server{ID: "s1"})
		},
	} {
		d := moving(t)
		appear(d)
		d.advanceTime(2*d.state.core.Config.Rescan, nil)
		if g := d.guests["s1"]; len(d.guests) != 1 || g.Image != "disk of the server" || g.Stopped {
			t.Errorf("%s: guests %+v", name, d.guests)
		}
		if d.phase() != host.Running || d.disk.Ended("s1") {
			t.Errorf("%s: phase %q, s1 has ended: %v", name, d.phase(), d.disk.Ended("s1"))
		}
	}
}

// A server that has left the host comes back with its disk while a late guest of it is here, which the agent has not
// seen yet. The late guest is not adopted, because it has another disk.
func TestLateGuestOfAServerThatReturnsWithItsDisk(t *testing.T) {
	for name, returns := range map[string]host.Server{
		"a move":   {ID: "s1", DiskFrom: &host.DiskFrom{Host: "other", ID: "m2"}},
		"unshelve": {ID: "s1", ShelvedDisk: host.ShelvedDisk{DiskImage: "image"}},
	} {
		d := newDriver(t)
		d.settle(nil)
		d.sendServers(1, host.Server{ID: "s1"})
		d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Remove: []host.Removal{{ID: "s1"}},
			Position: host.Position{Epoch: 1, EpochID: "e", Revision: 2}}})
		d.settle(nil)
		d.guests["s1"] = late
		d.sendServers(3, returns)
		if g := d.guests["s1"]; g.Image == "late" || g.DiskFrom == nil && g.DiskImage == "" || g.Stopped {
			t.Errorf("%s: guest %+v", name, g)
		}
	}
}
