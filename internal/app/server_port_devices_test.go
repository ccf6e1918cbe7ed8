package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// The PFs of the sample machine as network interfaces of 10 Mbit/s on physnet1, each with four VFs for ports.
const (
	nicsOfSample = "\n-- devices/pci0000:10/0000:10:00.0/0000:11:00.0/net/ens1/address --\n00:00:00:00:00:01\n" +
		"-- class/net/ens1/ --\n" +
		"-- devices/pci0000:20/0000:20:00.0/0000:21:00.0/net/ens2/address --\n00:00:00:00:00:02\n" +
		"-- class/net/ens2/ --\n"
	nicsConf = `
[SRIOV_NIC]
physical_device_mappings = physnet1:ens1,physnet1:ens2
resource_provider_bandwidths = ens1:10000:10000,ens2:10000:10000
[pci]
report_in_placement = true
device_spec = {"address":{"domain":".*","bus":"[12]1","slot":".*","function":"[1-4]"},"physical_network":"physnet1"}
[berth]
report_network_devices = true
`
)

// nicsLab is a portsLab with VFs for ports, and a second network on physnet1 with the VLAN 8.
type nicsLab struct {
	*portsLab
	direct string // id of the second network
}

func newNICsLab(t *testing.T, conf string, faulty *faultyNetwork) *nicsLab {
	t.Helper()
	l := &nicsLab{portsLab: newPortsLabOn(t, nicsOfSample, nicsConf+conf, faulty)}
	client := l.cloud.NetworkClient()
	l.until("the VFs are in Placement and known to the network service", func() bool {
		agents, err := client.Agents(t.Context(), map[string][]string{"agent_type": {string(bandwidth.NICSwitch)}})
		return err == nil && len(agents) == 1 && l.provider("cmp1_0000:11:00.0").Inventories[pci.PortVF].Total == 4 &&
			l.provider("cmp1_0000:11:00.0").Parent == l.nic("ens1") &&
			l.provider("cmp1_0000:21:00.0").Parent == l.nic("ens2")
	})
	l.addNetwork()
	return l
}

// addNetwork creates the second network.
func (l *nicsLab) addNetwork() {
	l.t.Helper()
	client, ctx := l.cloud.NetworkClient(), l.t.Context()
	n, err := client.CreateNetwork(ctx, map[string]any{"name": "fast", "project_id": "admin",
		"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 8})
	if err == nil {
		_, err = client.CreateSubnet(ctx, map[string]any{"network_id": n.ID, "ip_version": 4,
			"cidr": "10.1.0.0/24", "project_id": "admin"})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.direct = n.ID
}

// nic returns the bandwidth provider of an interface.
func (l *nicsLab) nic(name string) provider.ID {
	return bandwidth.Name{Hypervisor: "cmp1", Agent: bandwidth.NICSwitch, Device: name}.ID()
}

// directPort creates a port with a VF and a guarantee in kilobits per second; 0: none.
func (l *nicsLab) directPort(kbps int) network.Port {
	l.t.Helper()
	attributes := map[string]any{"network_id": l.direct, "project_id": "admin", "binding:vnic_type": "direct"}
	if kbps > 0 {
		attributes["qos_policy_id"] = l.policy(kbps)
	}
	p, err := l.cloud.NetworkClient().CreatePort(l.t.Context(), attributes)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// held returns the devices that the agent has given to a server; empty: to any.
func (l *nicsLab) held(server string) (list []host.Device) {
	l.t.Helper()
	devices, err := l.cloud.HostClient().Devices(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, d := range devices {
		if d.Holder != "" && (server == "" || d.Holder == server) {
			list = append(list, d)
		}
	}
	return list
}

// guestPort is an interface of a guest as the fake hypervisor stores it.
type guestPort struct {
	Port   string `json:"port_id"`
	Device string
	VIF    string `json:"vif_type"`
	VLAN   int
}

// guestPorts returns the interfaces of a guest.
func (l *nicsLab) guestPorts(server string) []guestPort {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(l.dir, "*", "*", server+".json"))
	if err != nil {
		l.t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(l.dir, "*", server+".json"))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, name := range append(files, more...) {
		var guest struct{ Interfaces []guestPort }
		if data, err := os.ReadFile(name); err == nil && json.Unmarshal(data, &guest) == nil && guest.Interfaces != nil {
			return guest.Interfaces
		}
	}
	return nil
}

// vfOf returns the VF of a server's port, after port, guest, agent and Placement agree about it: the port is bound with
// the only VF that the agent has given to the server, the guest has it as an interface, and Placement has a VF and the
// guarantee on one NIC.
func (l *nicsLab) vfOf(server, port string, kbps int) (address string) {
	l.t.Helper()
	l.until("port, guest, agent and Placement agree", func() bool {
		p, err := l.cloud.NetworkClient().Port(l.t.Context(), port)
		if err != nil || p.Host != "cmp1" || p.VIF != "hw_veb" || p.Device != server || p.DeviceOwner != "compute:nova" {
			return false
		}
		address, _ = p.Profile["pci_slot"].(string)
		devices, pf := l.held(server), strings.TrimRight(address, "1234")+"0"
		nic := map[string]provider.ID{"0000:11:00.0": l.nic("ens1"), "0000:21:00.0": l.nic("ens2")}[pf]
		allocated := l.allocation(server)
		vfs := allocated[l.provider("cmp1_"+pf).ID][pci.PortVF]
		interfaces := l.guestPorts(server)
		at := slices.IndexFunc(interfaces, func(i guestPort) bool { return i.Port == port })
		return len(devices) == 1 && devices[0].Address == address && vfs == 1 &&
			allocated[nic][bandwidth.EgressBandwidth] == kbps && (kbps > 0) == (len(p.Allocation()) == 1) &&
			p.Profile["pci_vendor_info"] == devices[0].VendorID+":"+devices[0].ProductID &&
			p.Profile["physical_network"] == "physnet1" && at >= 0 &&
			interfaces[at] == guestPort{Port: port, Device: address, VIF: "hw_veb", VLAN: 8}
	})
	return address
}

// TestServerWithDirectPort creates a server with a port on a VF that has a guarantee, and another port. It is stopped,
// resized, reverted, shelved, unshelved and deleted. After each step the VF of the port is that of the guest and of the
// NIC whose bandwidth is allocated.
func TestServerWithDirectPort(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newNICsLab(t, "", &faultyNetwork{})
	defer l.down()
	own := l.directPort(6000)
	s := l.create("ACTIVE", []map[string]string{{"port": own.ID}, {"uuid": l.net.ID}})
	first := l.vfOf(s.ID, own.ID, 6000)
	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.act(s.ID, "os-stop", "SHUTOFF", nil)
	l.act(s.ID, "os-start", "ACTIVE", nil)
	if now := l.vfOf(s.ID, own.ID, 6000); now != first {
		t.Errorf("the server has %s after a restart, before %s", now, first)
	}
	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
	if second := l.vfOf(s.ID, own.ID, 6000); second == first {
		t.Errorf("both guests of a resize have %s", first)
	}
	l.act(s.ID, "revertResize", "ACTIVE", nil)
	if now := l.vfOf(s.ID, own.ID, 6000); now != first {
		t.Errorf("the server has %s after the revert, before %s", now, first)
	}
	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
	l.act(s.ID, "confirmResize", "ACTIVE", nil)
	l.vfOf(s.ID, own.ID, 6000)
	l.act(s.ID, "shelve", "SHELVED_OFFLOADED", nil)
	for _, p := range l.ports(s.ID) {
		if p.Host != "" || len(p.Profile) > 0 {
			t.Errorf("port of a shelved server: %+v", p)
		}
	}
	l.until("no VF is held", func() bool { return len(l.held("")) == 0 })
	l.act(s.ID, "unshelve", "ACTIVE", nil)
	l.vfOf(s.ID, own.ID, 6000)
	l.delete(s.ID)
	l.until("the VF and the port are free", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), own.ID)
		return err == nil && p.Device == "" && p.Host == "" && len(p.Profile) == 0 && len(l.held("")) == 0
	})
}

// TestDirectPortsUntilANICIsFull creates servers with VFs until the bandwidth is used up: the next one is rejected with
// the reason, although VFs are free. A deleted one makes room again.
func TestDirectPortsUntilANICIsFull(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newNICsLab(t, "", &faultyNetwork{})
	defer l.down()
	var servers []compute.Server
	nics := map[string]bool{}
	for range 2 {
		own := l.directPort(6000)
		s := l.create("ACTIVE", []map[string]string{{"port": own.ID}})
		nics[l.vfOf(s.ID, own.ID, 6000)[:8]] = true
		servers = append(servers, s)
	}
	if len(nics) != 2 {
		t.Errorf("two ports of 6 Mbit/s are on one NIC of 10 Mbit/s: %v", nics)
	}
	third := l.directPort(6000)
	failed := l.create("ERROR", []map[string]string{{"port": third.ID}})
	if failed.Fault == nil || !strings.Contains(failed.Fault.Message, "NET_BW_EGR_KILOBIT_PER_SEC") {
		t.Errorf("fault %+v", failed.Fault)
	}
	l.until("the rejected server has nothing", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), third.ID)
		return err == nil && p.Host == "" && len(l.held(failed.ID))+len(l.allocation(failed.ID)) == 0
	})
	plain := l.directPort(0) // needs a VF only
	s := l.create("ACTIVE", []map[string]string{{"port": plain.ID}})
	l.vfOf(s.ID, plain.ID, 0)
	l.delete(servers[0].ID)
	l.delete(failed.ID)
	again := l.create("ACTIVE", []map[string]string{{"port": third.ID}})
	l.vfOf(again.ID, third.ID, 6000)
}

// TestDirectPortThatCannotBeBound creates a server with a port on a VF that Placement does not count and that no agent
// of the network service connects. The agent has claimed the VF then: it is free again, and the server fails with the
// reason. A guarantee is refused on such hosts.
func TestDirectPortThatCannotBeBound(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := &nicsLab{portsLab: newPortsLabOn(t, "", `
[pci]
device_spec = {"address":{"domain":".*","bus":"21","slot":".*","function":"[1-4]"},"physical_network":"physnet1"}
`, &faultyNetwork{})}
	defer l.down()
	l.addNetwork()
	for kbps, want := range map[int]string{0: "cannot be bound to host cmp1", 1000: "report_network_devices = true"} {
		port := l.directPort(kbps)
		s := l.create("ERROR", []map[string]string{{"port": port.ID}})
		if s.Fault == nil || !strings.Contains(s.Fault.Message, want) {
			t.Errorf("fault %+v, want %q", s.Fault, want)
		}
		l.until("nothing is left", func() bool {
			p, err := l.cloud.NetworkClient().Port(t.Context(), port.ID)
			return err == nil && p.Host == "" && len(p.Profile) == 0 && len(l.held(""))+len(l.allocation(s.ID)) == 0
		})
		l.delete(s.ID)
	}
}

// TestDirectPhysicalPort creates a server with a port that has a whole PF and a guarantee. The PF is the NIC whose
// bandwidth is allocated, and whose MAC address the port has; it is free after the server is deleted, and the port has
// another address.
func TestDirectPhysicalPort(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	const mac = "52:54:00:12:34:56"
	l := &nicsLab{portsLab: newPortsLabOn(t, strings.ReplaceAll(nicsOfSample, "00:00:00:00:00:02", mac), `
[SRIOV_NIC]
physical_device_mappings = physnet1:ens1,physnet1:ens2
resource_provider_bandwidths = ens1:10000:10000,ens2:10000:10000
[pci]
report_in_placement = true
device_spec = {"product_id":"0010","address":{"bus":"21","function":"0"},"physical_network":"physnet1"}
[berth]
report_network_devices = true
`, &faultyNetwork{})}
	defer l.down()
	l.until("the PF is below its NIC", func() bool {
		p := l.provider("cmp1_0000:21:00.0")
		agents, err := l.cloud.NetworkClient().Agents(t.Context(),
			map[string][]string{"agent_type": {string(bandwidth.NICSwitch)}})
		return err == nil && len(agents) == 1 && p.Inventories[pci.PortNIC].Total == 1 && p.Parent == l.nic("ens2")
	})
	l.addNetwork()
	port, err := l.cloud.NetworkClient().CreatePort(t.Context(), map[string]any{"network_id": l.direct,
		"project_id": "admin", "binding:vnic_type": "direct-physical", "qos_policy_id": l.policy(6000)})
	if err != nil {
		t.Fatal(err)
	}
	s := l.create("ACTIVE", []map[string]string{{"port": port.ID}})
	p, err := l.cloud.NetworkClient().Port(t.Context(), port.ID)
	if err != nil || p.VIF != "hostdev_physical" || p.Profile["pci_slot"] != "0000:21:00.0" || p.MAC != mac ||
		l.allocation(s.ID)[l.nic("ens2")][bandwidth.EgressBandwidth] != 6000 {
		t.Errorf("%+v %v, allocation %v", p, err, l.allocation(s.ID))
	}
	l.until("the guest has the PF", func() bool {
		return slices.Equal(l.guestPorts(s.ID), []guestPort{{Port: port.ID, Device: "0000:21:00.0",
			VIF: "hostdev_physical"}})
	})
	l.delete(s.ID)
	l.until("the PF is free", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), port.ID)
		return err == nil && p.MAC != mac && len(l.held("")) == 0
	})
}

// TestPortsWithAndWithoutGuarantee creates servers with two ports on two NICs of one VF each, of which one has
// bandwidth: the port with the guarantee has the VF of that NIC, whatever the order and the vnic type. A further
// guarantee finds bandwidth and no VF (rows N14, N15 and N16 of the scenarios of OpenStack's tests).
func TestPortsWithAndWithoutGuarantee(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := &nicsLab{portsLab: newPortsLabOn(t, nicsOfSample, `
[SRIOV_NIC]
physical_device_mappings = physnet1:ens1,physnet1:ens2
resource_provider_bandwidths = ens1:10000:10000
[pci]
report_in_placement = true
device_spec = {"address":{"domain":".*","bus":"[12]1","slot":".*","function":"1"},"physical_network":"physnet1"}
[berth]
report_network_devices = true
`, &faultyNetwork{})}
	defer l.down()
	l.until("the VFs are in Placement and the agent is known to the network service", func() bool {
		agents, err := l.cloud.NetworkClient().Agents(t.Context(),
			map[string][]string{"agent_type": {string(bandwidth.NICSwitch)}})
		return err == nil && len(agents) == 1 && l.provider("cmp1_0000:11:00.0").Parent == l.nic("ens1") &&
			l.provider("cmp1_0000:21:00.0").Inventories[pci.PortVF].Total == 1
	})
	l.addNetwork()
	for _, vnic := range []string{"direct", "macvtap"} {
		plain, err := l.cloud.NetworkClient().CreatePort(t.Context(), map[string]any{"network_id": l.direct,
			"project_id": "admin", "binding:vnic_type": "direct"})
		if err != nil {
			t.Fatal(err)
		}
		guaranteed, err := l.cloud.NetworkClient().CreatePort(t.Context(), map[string]any{"network_id": l.direct,
			"project_id": "admin", "binding:vnic_type": vnic, "qos_policy_id": l.policy(2000)})
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range [][]string{{plain.ID, guaranteed.ID}, {guaranteed.ID, plain.ID}} {
			s := l.create("ACTIVE", []map[string]string{{"port": order[0]}, {"port": order[1]}})
			for port, want := range map[string]string{plain.ID: "0000:21:00.1", guaranteed.ID: "0000:11:00.1"} {
				p, err := l.cloud.NetworkClient().Port(t.Context(), port)
				if err != nil || p.VIF != "hw_veb" || p.Profile["pci_slot"] != want {
					t.Errorf("%s: %+v %v, want %s", vnic, p.ActiveBinding, err, want)
				}
			}
			next := l.directPort(2000)
			failed := l.create("ERROR", []map[string]string{{"port": next.ID}})
			if failed.Fault == nil || !strings.Contains(failed.Fault.Message, string(pci.PortVF)) {
				t.Errorf("no VF is free: %+v", failed.Fault)
			}
			l.delete(s.ID)
			l.delete(failed.ID)
			l.until("no VF is held", func() bool { return len(l.held("")) == 0 })
		}
	}
}
