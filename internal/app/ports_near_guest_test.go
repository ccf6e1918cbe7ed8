package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// A server with ports on VFs that must be near its NUMA node fits, although pinned guests have all CPUs of node 0 and
// the VFs there are free: there are more ways to give NICs to its ports than Placement returns candidates, and the
// first ones have NICs of node 0.
func TestPortsNearTheOnlyNodeWithCPUs(t *testing.T) {
	t.Parallel()
	newNearLab(t).fill(0, 4) // 16 VFs are near node 1
}

// It fits also if each port has a guarantee, so that the NIC of its bandwidth decides which VFs it may have.
func TestGuaranteedPortsNearTheOnlyNodeWithCPUs(t *testing.T) {
	t.Parallel()
	l := newNearLab(t)
	servers := l.fill(3000, 3) // each of the 4 NICs near node 1 has bandwidth for 3 ports
	for _, s := range servers {
		for _, d := range l.held(s.ID) {
			bus := 0
			_, _ = fmt.Sscanf(d.Address, "%x:", &bus)
			nic := l.nic(fmt.Sprintf("ens%d", bus))
			if l.allocation(s.ID)[nic][bandwidth.EgressBandwidth] < 3000 {
				t.Errorf("%s has no bandwidth of %s: %v", d.Address, nic, l.allocation(s.ID))
			}
		}
	}
}

// newNearLab returns a host with two NUMA nodes, of which node 0 has no CPUs left. Each has 4 NICs of 10 Mbit/s, each
// with 4 VFs.
func newNearLab(t *testing.T) *nicsLab {
	mappings, rates := "", ""
	l := &nicsLab{portsLab: &portsLab{lab: newLab(t)}}
	l.sys = twoNodes(func(m *machine, node int) {
		for range 4 {
			m.nics(node, 1, 4)
			name := fmt.Sprintf("ens%d", m.bus)
			m.file(fmt.Sprintf("devices/pci%04x:00/%04x:00:00.0/%04x:01:00.0/net/%s/address", m.bus, m.bus, m.bus,
				name),
				fmt.Sprintf("00:00:00:00:00:%02x", m.bus))
			fmt.Fprintf(&m.links, "-- class/net/%s/ --\n", name)
			mappings += ",physnet1:" + name
			rates += "," + name + ":10000:10000"
		}
	})
	l.up("[compute]\ncpu_dedicated_set = 0-15\n[SRIOV_NIC]\n" +
		"physical_device_mappings = " + strings.TrimPrefix(mappings, ",") +
		"\nresource_provider_bandwidths = " + strings.TrimPrefix(rates, ",") +
		"\n[pci]\nreport_in_placement = true\n" +
		`device_spec = {"vendor_id": "15b3", "product_id": "101e", "physical_network": "physnet1"}` +
		"\n[berth]\nreport_network_devices = true\n")
	t.Cleanup(l.down)
	l.until("the VFs are in Placement and known to the network service", func() bool {
		agents, err := l.cloud.NetworkClient().Agents(t.Context(), map[string][]string{
			"agent_type": {string(bandwidth.NICSwitch)}})
		return err == nil && len(agents) == 1 && l.provider("cmp1_0008:01:00.0").Inventories[pci.PortVF].Total == 4 &&
			l.provider("cmp1_0008:01:00.0").Parent == l.nic("ens8")
	})
	l.addNetwork()
	l.bootCPUs("pinned", "ACTIVE", 8, map[string]string{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1"})
	l.numaFlavor("near", map[string]string{"hw:cpu_policy": "dedicated"})
	return l
}

// fill creates as many servers with 4 ports with a guarantee as the headroom says, and one more, which fits nowhere.
// All VFs of the others are near node 1.
func (l *nicsLab) fill(kbps, want int) (servers []compute.Server) {
	l.t.Helper()
	direct := "vnic_type=direct,physical_network=physnet1"
	if kbps > 0 {
		direct += fmt.Sprintf(",egress=%d", kbps)
	}
	fits, err := l.cloud.HostClient().Headroom(l.t.Context(), l.flavor, slices.Repeat([]string{direct}, 4))
	if err != nil || fits.Fits != want {
		l.t.Errorf("the headroom is %+v, %v; want %d", fits, err, want)
	}
	ports := func() (list []map[string]string) {
		for range 4 {
			list = append(list, map[string]string{"port": l.directPort(kbps).ID})
		}
		return list
	}
	for range want {
		s := l.create("ACTIVE", ports())
		servers = append(servers, s)
		held := l.held(s.ID)
		for _, d := range held {
			if d.NUMANode != 1 || l.allocation(s.ID)[provider.ID(d.Provider)][pci.PortVF] == 0 {
				l.t.Errorf("%s of node %d: the server holds %v", d.Address, d.NUMANode, l.allocation(s.ID))
			}
		}
		if len(held) != 4 {
			l.t.Errorf("%+v", held)
		}
	}
	l.create("ERROR", ports())
	return servers
}
