package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/testenv"
)

// loseBinding makes a port of a server free in the network service, as in an older database of it.
func (l *portsLab) loseBinding(port string) {
	l.t.Helper()
	_, err := l.cloud.NetworkClient().UpdatePort(l.t.Context(), port, map[string]any{"device_id": "", "device_owner": "",
		"binding:host_id": "", "binding:profile": map[string]any{}})
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestPortWithLostBindingIsAttachedToAnotherServer has row N40: a port that a server has, and that lost its binding, is
// attached to a second server, which gets a VF and bandwidth of its own. The first one keeps its VF and its bandwidth,
// healing names it with the second one, and detaching the port from it frees both and leaves the port of the second.
func TestPortWithLostBindingIsAttachedToAnotherServer(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newNICsLab(t, "", &faultyNetwork{})
	defer l.down()
	port := l.directPort(3000)
	first := l.create("ACTIVE", []map[string]string{{"port": port.ID}})
	vf := l.vfOf(first.ID, port.ID, 3000)
	held := l.allocation(first.ID)
	second := l.create("ACTIVE", "none")
	plain := l.allocation(second.ID)
	l.loseBinding(port.ID)
	other := l.attachDirect(second.ID, port.ID, 3000)
	if other == vf || !l.allocation(first.ID).Equal(held) || len(l.held(first.ID)) != 1 {
		t.Errorf("VFs %s and %s; the first server has %v, before %v", vf, other, l.allocation(first.ID), held)
	}
	got, err := l.cloud.HostClient().HealPorts(t.Context(), host.HealPorts{Apply: true})
	if err != nil || len(got.Servers) != 1 || got.Servers[0].Server != first.ID ||
		got.Servers[0].State != host.PortsNotAllocated ||
		!strings.Contains(got.Servers[0].Reason, "its device is "+second.ID+"; detach it from one of them") {
		t.Errorf("%+v %v", got, err)
	}
	l.detach(first.ID, port.ID)
	l.until("the first server has nothing of the port", func() bool {
		return l.allocation(first.ID).Equal(plain) && len(l.held(first.ID)) == 0 && len(l.guestPorts(first.ID)) == 0
	})
	if now := l.vfOf(second.ID, port.ID, 3000); now != other {
		t.Errorf("the second server has %s, before %s", now, other)
	}
	if got, err = l.cloud.HostClient().HealPorts(t.Context(), host.HealPorts{}); err != nil || len(got.Servers) != 0 {
		t.Errorf("%+v %v", got, err)
	}
	for _, s := range []compute.Server{first, second} {
		l.delete(s.ID)
	}
	l.until("nothing is left", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), port.ID)
		return err == nil && isFree(p) && len(l.held(""))+len(l.allocation(first.ID))+len(l.allocation(second.ID)) == 0
	})
}

// isFree reports whether a port belongs to no device and no host.
func isFree(p network.Port) bool { return p.Device == "" && p.Host == "" && len(p.Profile) == 0 }
