package reconcile

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// Disks that are copied do not hold up other servers. At most half of the attempts copy disks at the same time.
func TestCopiedDisksDoNotHoldUpOtherServers(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	var servers []host.Server
	for n := range 20 {
		servers = append(servers, host.Server{ID: fmt.Sprintf("a%02d", n), VCPUs: 1, MemoryMB: 64,
			DiskFrom: &host.DiskFrom{Host: "b", ID: fmt.Sprintf("m%02d", n)}})
	}
	servers = append(servers, host.Server{ID: "z", VCPUs: 1, MemoryMB: 64})
	d.deliver(state.Received{Assignments: host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e",
		Revision: 1}, Servers: servers}})
	copies := func(e state.Effect) bool { b, is := e.(state.Build); return is && b.Guest.DiskFrom != nil }
	d.settle(copies)
	copying := 0
	for _, e := range d.pending {
		if copies(e) {
			copying++
		}
	}
	if _, built := d.guests["z"]; !built || copying != 4 {
		t.Errorf("%d disks are copied, and the other server is built: %v", copying, built)
	}
	d.settle(nil)
	if len(d.guests) != len(servers) {
		t.Errorf("%d guests of %d", len(d.guests), len(servers))
	}
}
