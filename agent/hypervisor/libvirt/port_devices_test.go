package libvirt

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// Devices of ports are attached and detached while a guest is stopped. A running guest stays as it is, with the reason;
// it loses the device if it is stopped with the same change.
func TestPortDevices(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	hypervisortest.PortDevices(t, func(t *testing.T) hypervisor.Hypervisor { return open(t, daemon, dir) })

	d := open(t, daemon, daemon.GuestDir(t))
	before, after := hypervisortest.Guest("c", 3), hypervisortest.Guest("c", 3, 4)
	after.Interfaces = []hypervisor.Interface{{Port: hypervisortest.ID("1"), MAC: "fa:16:3e:00:00:01",
		VIF: "hostdev_physical", VNIC: "direct-physical", Device: after.Devices[1].ID}}
	build := func(g hypervisor.Guest) error { return d.Build(t.Context(), g) }
	refused := func(change, stays hypervisor.Guest) {
		t.Helper()
		err := build(change)
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "stop the server first") {
			t.Errorf("a running guest was changed: %v", err)
		}
		guests, err := d.Guests(t.Context())
		for _, g := range guests {
			if g.ID == stays.ID && !reflect.DeepEqual(g, stays) {
				t.Errorf("%+v, want %+v, %v", g, stays, err)
			}
		}
	}
	must(t, build(before))
	refused(after, before)
	must(t, build(stopped(before)))
	must(t, build(stopped(after)))
	must(t, build(after)) // it starts with the device
	refused(before, after)
	must(t, build(stopped(before)))
	must(t, build(before))
}

// stopped returns a guest that does not run.
func stopped(g hypervisor.Guest) hypervisor.Guest {
	g.Stopped = true
	return g
}
