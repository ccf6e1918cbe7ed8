package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
)

// One physical network that a bridge and the NIC ens1 are connected to. The VFs of ens2 carry vDPA devices.
const (
	vdpaOfSample = "-- bus/vdpa/devices/vdpa0 -> ../../../devices/pci0000:20/0000:20:00.0/0000:21:00.1/vdpa0 --\n" +
		"-- bus/vdpa/devices/vdpa1 -> ../../../devices/pci0000:20/0000:20:00.0/0000:21:00.2/vdpa1 --\n"
	oneNetworkConf = `
[SRIOV_NIC]
physical_device_mappings = physnet0:ens1,physnet0:ens2
resource_provider_bandwidths = ens1:10000:10000,ens2:10000:10000
[pci]
report_in_placement = true
device_spec = {"address":{"domain":".*","bus":"11","slot":".*","function":"[1-4]"},"physical_network":"physnet0"}
device_spec = {"address":{"domain":".*","bus":"21","slot":".*","function":"[12]"},"physical_network":"physnet0"}
[berth]
report_network_devices = true
`
)

// newOneNetworkLab is a nicsLab whose bridge and NICs are of one physical network, with the VLAN 7.
func newOneNetworkLab(t *testing.T, conf string) *nicsLab {
	t.Helper()
	l := &nicsLab{portsLab: newPortsLabOn(t, nicsOfSample+vdpaOfSample, oneNetworkConf+conf, &faultyNetwork{})}
	l.direct = l.net.ID
	l.until("the VFs are in Placement and both agents have reported", func() bool {
		agents, err := l.cloud.NetworkClient().Agents(t.Context(), nil)
		return err == nil && len(agents) == 2 &&
			!slices.ContainsFunc(agents, func(a network.Agent) bool { return a.Synced == nil || !*a.Synced }) &&
			l.provider("cmp1_0000:11:00.0").Parent == l.nic("ens1") &&
			l.provider("cmp1_0000:21:00.0").Inventories[pci.PortVDPA].Total == 2
	})
	return l
}

// portOf creates a port of a vnic type on the network, with a guarantee unless kbps is 0.
func (l *nicsLab) portOf(vnicType string, kbps int, profile map[string]any) network.Port {
	l.t.Helper()
	attributes := map[string]any{"network_id": l.net.ID, "project_id": "admin", "binding:vnic_type": vnicType}
	if kbps > 0 {
		attributes["qos_policy_id"] = l.policy(kbps)
	}
	if profile != nil {
		attributes["binding:profile"] = profile
	}
	p, err := l.cloud.NetworkClient().CreatePort(l.t.Context(), attributes)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// only returns the only interface of a guest, after it has one.
func (l *nicsLab) only(server string) (found guestPort) {
	l.t.Helper()
	l.until("the guest has its interface", func() bool {
		all := l.guestPorts(server)
		if len(all) == 1 {
			found = all[0]
		}
		return len(all) == 1
	})
	return found
}

// TestBridgeAndNICOfOnePhysicalNetwork creates servers on a host whose bridge and NICs are connected to one physical
// network: a direct port has a configured VF with the VLAN of its network, with and without a guarantee, an offloaded
// one belongs to the bridge, and a vdpa port has its vDPA device below the bridge. A port of the vnic type
// virtio-forwarder is refused with the reason.
func TestBridgeAndNICOfOnePhysicalNetwork(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newOneNetworkLab(t, "")
	defer l.down()
	l.directServers()
	for _, kbps := range []int{0, 3000} {
		l.vdpaServer(kbps)
	}
	offloaded := l.portOf("direct", 0, map[string]any{"capabilities": []string{"switchdev"}})
	s := l.create("ACTIVE", []map[string]string{{"port": offloaded.ID}})
	if got := l.only(s.ID); got.VIF != "ovs" || got.VLAN != 0 || got.Device == "" {
		t.Errorf("offloaded port: %+v", got)
	}
	l.refused(l.portOf("virtio-forwarder", 0, nil), "no agent binds ports of vnic type virtio-forwarder")
}

// TestProhibitedVNICType is the same where the configuration of the bridge's agent prohibits direct ports: binding
// follows it as Placement's traits do.
func TestProhibitedVNICType(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newOneNetworkLab(t, "[ovs_driver]\nvnic_type_prohibit_list = direct\n")
	defer l.down()
	if l.provider("cmp1:Open vSwitch agent:br-ex").HasTrait("CUSTOM_VNIC_TYPE_DIRECT") {
		t.Error("the bridge has the trait of a prohibited type")
	}
	l.directServers()
	l.refused(l.portOf("direct", 0, map[string]any{"capabilities": []string{"switchdev"}}),
		"[ovs_driver] vnic_type_prohibit_list prohibits the vnic type direct")
}

// directServers creates servers with direct ports, with and without a guarantee, checks and deletes them.
func (l *nicsLab) directServers() {
	l.t.Helper()
	for _, kbps := range []int{0, 6000} {
		p := l.portOf("direct", kbps, nil)
		s := l.create("ACTIVE", []map[string]string{{"port": p.ID}})
		got := l.only(s.ID)
		if got.VIF != "hw_veb" || got.VLAN != 7 || !strings.HasPrefix(got.Device, "0000:11:00.") ||
			l.allocation(s.ID)[l.nic("ens1")][bandwidth.EgressBandwidth] != kbps {
			l.t.Errorf("direct port with %d kbit/s: %+v, %v", kbps, got, l.allocation(s.ID))
		}
		l.delete(s.ID)
	}
}

// refused creates a server with a port, which fails with a reason.
func (l *nicsLab) refused(p network.Port, reason string) {
	l.t.Helper()
	if s := l.create("ERROR", []map[string]string{{"port": p.ID}}); s.Fault == nil ||
		!strings.Contains(s.Fault.Message, reason) {
		l.t.Errorf("fault %+v, want %q", s.Fault, reason)
	}
}

// vdpaServer creates a server with a vdpa port and a guarantee, checks it, and deletes it.
func (l *nicsLab) vdpaServer(kbps int) {
	l.t.Helper()
	p := l.portOf("vdpa", kbps, nil)
	s := l.create("ACTIVE", []map[string]string{{"port": p.ID}})
	got, allocated := l.only(s.ID), l.allocation(s.ID)
	bound, err := l.cloud.NetworkClient().Port(l.t.Context(), p.ID)
	if err != nil || got.VIF != "ovs" || got.VLAN != 0 || !strings.HasPrefix(got.Device, "0000:21:00.") ||
		bound.Profile["pci_slot"] != got.Device || allocated[l.bridge][bandwidth.EgressBandwidth] != kbps ||
		allocated[l.provider("cmp1_0000:21:00.0").ID][pci.PortVDPA] != 1 ||
		l.provider("cmp1_0000:21:00.0").Parent != l.bridge {
		l.t.Errorf("vdpa port with %d kbit/s: %+v, %v, %+v %v", kbps, got, allocated, bound, err)
	}
	l.delete(s.ID)
}
