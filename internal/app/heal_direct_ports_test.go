package app

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// TestHealDirectPorts removes the VF and the guarantee of servers with direct ports from Placement, and the allocation
// from their ports: as Nova and Neutron leave them before devices of ports are counted. One command lets Placement
// count each VF, and the guarantee on its NIC, although both NICs have room.
func TestHealDirectPorts(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newNICsLab(t, "", &faultyNetwork{})
	defer l.down()
	var servers []string
	for range 3 {
		s := l.create("ACTIVE", []map[string]string{{"port": l.directPort(3000).ID}})
		l.agree(s.ID, l.ports(s.ID)[0])
		servers = append(servers, s.ID)
	}
	earlier := healLab{portsLab: l.portsLab}
	for _, id := range servers {
		earlier.stripPorts(id)
		earlier.setEgress(id, 0) // only the root is left
	}
	healed := 0
	l.until("nothing needs healing", func() bool {
		got, err := l.cloud.HostClient().HealPorts(t.Context(), host.HealPorts{Apply: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got.Servers {
			if s.State == host.PortsHealed && len(s.Ports) == 1 && len(s.Ports[0].Groups) == 1 {
				healed++
			}
		}
		return len(got.Servers) == 0
	})
	for _, id := range servers {
		port := l.ports(id)[0]
		if l.agree(id, port); len(port.Allocation()) != 1 {
			t.Errorf("%v", port.Profile)
		}
	}
	if healed != len(servers) {
		t.Errorf("%d servers were healed", healed)
	}
}

// TestHealLostBinding removes the binding and the device of a server's port in the network service, as a database that
// is older than the server has it. One command binds the port again, to the same VF, and the guest keeps it.
func TestHealLostBinding(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newNICsLab(t, "", &faultyNetwork{})
	defer l.down()
	s := l.create("ACTIVE", []map[string]string{{"port": l.directPort(3000).ID}})
	before := l.ports(s.ID)[0]
	_, err := l.cloud.NetworkClient().UpdatePort(t.Context(), before.ID, map[string]any{"device_id": "",
		"device_owner": "", "binding:host_id": "", "binding:profile": map[string]any{}})
	if err != nil || len(l.ports(s.ID)) != 0 {
		t.Fatalf("%v, ports %v", err, l.ports(s.ID))
	}
	got, err := l.cloud.HostClient().HealPorts(t.Context(), host.HealPorts{Apply: true})
	if err != nil || len(got.Servers) != 1 || got.Servers[0].State != host.PortsHealed ||
		!got.Servers[0].Ports[0].Bind {
		t.Fatalf("%+v %v", got, err)
	}
	after := l.ports(s.ID)
	if len(after) != 1 || after[0].Host != before.Host || after[0].VIF != before.VIF ||
		after[0].DeviceOwner != before.DeviceOwner || !reflect.DeepEqual(after[0].Profile, before.Profile) {
		t.Fatalf("%+v, want %+v", after, before)
	}
	l.agree(s.ID, after[0])
	if got, err = l.cloud.HostClient().HealPorts(t.Context(), host.HealPorts{}); err != nil || len(got.Servers) != 0 {
		t.Errorf("%+v %v", got, err)
	}
}

// agree checks that a server has a VF and the guarantee of its port on one NIC, the NIC of the VF that the port has.
func (l *nicsLab) agree(server string, port network.Port) {
	l.t.Helper()
	nic, vfs := l.nic("ens1"), l.provider("cmp1_0000:11:00.0").ID
	if slot, _ := port.Profile["pci_slot"].(string); strings.HasPrefix(slot, "0000:21") {
		nic, vfs = l.nic("ens2"), l.provider("cmp1_0000:21:00.0").ID
	}
	want := resource.Allocation{nic: {bandwidth.EgressBandwidth: 3000}, vfs: {pci.PortVF: 1}}
	held := l.allocation(server)
	delete(held, l.root)
	if !held.Equal(want) {
		l.t.Errorf("port with %v: %v, want %v", port.Profile, held, want)
	}
}
