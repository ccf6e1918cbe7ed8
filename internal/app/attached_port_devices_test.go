package app

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// attachDirect attaches a port with a VF and waits until port, guest, agent and Placement agree.
func (l *nicsLab) attachDirect(server, port string, kbps int) (vf string) {
	l.t.Helper()
	if got, err := l.attach(server, map[string]any{"port_id": port}); err != nil || got != port {
		l.t.Fatalf("attached %q: %v", got, err)
	}
	return l.vfOf(server, port, kbps)
}

// detachDirect detaches a port with a VF and waits until the change has ended.
func (l *nicsLab) detachDirect(server, port string) {
	l.t.Helper()
	l.detach(server, port)
	l.until("the change of the port has ended", func() bool {
		why, err := l.compute().Why(l.t.Context(), server)
		return err == nil && why.PortChange == "" && why.History[len(why.History)-1].Text == "detached the port"
	})
	p, err := l.cloud.NetworkClient().Port(l.t.Context(), port)
	if err != nil || p.Device != "" || p.Host != "" || len(p.Profile) > 0 {
		l.t.Errorf("port %+v, %v", p, err)
	}
	if slices.ContainsFunc(l.guestPorts(server), func(i guestPort) bool { return i.Port == port }) {
		l.t.Errorf("the guest has %+v", l.guestPorts(server))
	}
}

// TestDirectPortsAreAttachedAndDetached attaches ports on VFs with and without a guarantee to a running and to a
// stopped server, until the host has no room, and detaches them. The server is resized with an attached port. After
// each step port, guest, agent and Placement agree about the VF, and VF and bandwidth are of one NIC.
func TestDirectPortsAreAttachedAndDetached(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newNICsLab(t, "", &faultyNetwork{})
	defer l.down()
	s := l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID}})
	before := l.allocation(s.ID)
	own := l.directPort(6000)
	first := l.attachDirect(s.ID, own.ID, 6000)
	l.act(s.ID, "os-stop", "SHUTOFF", nil)
	l.act(s.ID, "os-start", "ACTIVE", nil)
	if now := l.vfOf(s.ID, own.ID, 6000); now != first {
		t.Errorf("the server has %s after a restart, before %s", now, first)
	}

	other := l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID}})
	large := l.directPort(6000)
	if second := l.attachDirect(other.ID, large.ID, 6000); second[:8] == first[:8] {
		t.Errorf("%s and %s are of one NIC", first, second)
	}
	third := l.directPort(6000)
	held := l.allocation(s.ID)
	if _, err := l.attach(s.ID, map[string]any{"port_id": third.ID}); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "Failed to allocate additional resources to instance "+s.ID) {
		t.Errorf("a port that does not fit: %v", err)
	}
	l.vfOf(s.ID, own.ID, 6000)
	if p, err := l.cloud.NetworkClient().Port(t.Context(), third.ID); err != nil || p.Device != "" || p.Host != "" ||
		!l.allocation(s.ID).Equal(held) {
		t.Errorf("%+v %v, allocation %v, before %v", p, err, l.allocation(s.ID), held)
	}
	l.detachDirect(other.ID, large.ID)
	if list, now := l.held(other.ID), l.allocation(other.ID); len(list) > 0 || !now.Equal(before) {
		t.Errorf("devices %v, allocation %v", list, now)
	}

	// A stopped server gets a second VF, without a guarantee.
	l.act(other.ID, "os-stop", "SHUTOFF", nil)
	plain := l.directPort(0)
	l.attachDirect(other.ID, plain.ID, 0)
	l.act(other.ID, "os-start", "ACTIVE", nil)
	l.vfOf(other.ID, plain.ID, 0)

	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.detachDirect(other.ID, plain.ID)
	l.delete(other.ID)
	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
	l.vfOf(s.ID, own.ID, 6000)
	l.act(s.ID, "revertResize", "ACTIVE", nil)
	l.vfOf(s.ID, own.ID, 6000)

	l.detachDirect(s.ID, own.ID)
	if list, now := l.held(""), l.allocation(s.ID); len(list) > 0 || !now.Equal(before) {
		t.Errorf("devices %v, allocation %v", list, now)
	}
	if ports := l.guestPorts(s.ID); len(ports) != 1 || ports[0].Device != "" {
		t.Errorf("the guest has %+v", ports)
	}
	l.attachDirect(s.ID, own.ID, 6000)
	l.delete(s.ID)
	l.until("the VF and the port are free", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), own.ID)
		return err == nil && p.Device == "" && p.Host == "" && len(p.Profile) == 0 && len(l.held("")) == 0
	})
}

// TestFaultAtEachCallOfAttachingADirectPort attaches and detaches a port on a VF and lets each call of the network
// service fail once, every second one before it is performed, the others after. The port is attached or not, never in
// between; no VF is held at the end.
func TestFaultAtEachCallOfAttachingADirectPort(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	faulty := &faultyNetwork{}
	service := httptest.NewServer(faulty)
	defer service.Close()
	l := newNICsLab(t, "\n[neutron]\nendpoint_override = "+service.URL+"\n", faulty)
	defer l.down()
	own := l.directPort(4000)
	s := l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID}})
	before := l.allocation(s.ID)
	for offset, lost := range []bool{false, true} {
		for n := 1 + offset; ; n += 2 {
			faulty.begin(n, lost)
			_, err := l.attach(s.ID, map[string]any{"port_id": own.ID})
			attached := slices.ContainsFunc(l.ports(s.ID), func(p network.Port) bool { return p.ID == own.ID })
			if err == nil && !attached {
				t.Error("the port is not attached")
			}
			if attached { // else the check of the request has failed
				l.vfOf(s.ID, own.ID, 4000)
				l.detachDirect(s.ID, own.ID)
			}
			l.until(fmt.Sprintf("nothing is left after a fault of call %d", n), func() bool {
				p, err := l.cloud.NetworkClient().Port(t.Context(), own.ID)
				return err == nil && p.Device == "" && len(p.Profile) == 0 && len(l.held("")) == 0 &&
					l.allocation(s.ID).Equal(before)
			})
			if !faulty.failed() {
				t.Logf("%d calls", n-1)
				break
			}
		}
	}
}
