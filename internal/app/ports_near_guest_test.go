package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// A server with ports on VFs that must be near its NUMA node fits, although pinned guests have all CPUs of node 0 and
// the VFs there are free: there are more ways to give NICs to its ports than Placement returns candidates, and the
// first ones have NICs of node 0.
func TestPortsNearTheOnlyNodeWithCPUs(t *testing.T) {
	t.Parallel()
	mappings := ""
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
		}
	})
	l.up("[compute]\ncpu_dedicated_set = 0-15\n[SRIOV_NIC]\n" +
		"physical_device_mappings = " + strings.TrimPrefix(mappings, ",") +
		"\n[pci]\nreport_in_placement = true\n" +
		`device_spec = {"vendor_id": "15b3", "product_id": "101e", "physical_network": "physnet1"}` +
		"\n[berth]\nreport_network_devices = true\n")
	defer l.down()
	l.until("the VFs are in Placement", func() bool {
		return l.provider("cmp1_0008:01:00.0").Inventories[pci.PortVF].Total == 4
	})
	l.addNetwork()
	l.bootCPUs("pinned", "ACTIVE", 8, map[string]string{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1"})
	l.numaFlavor("near", map[string]string{"hw:cpu_policy": "dedicated"})
	var ports []map[string]string
	for range 4 {
		ports = append(ports, map[string]string{"port": l.directPort(0).ID})
	}
	direct := slices.Repeat([]string{"vnic_type=direct,physical_network=physnet1"}, 4)
	if fits, err := l.cloud.HostClient().Headroom(t.Context(), l.flavor, direct); err != nil || fits.Fits != 4 {
		t.Errorf("the headroom is %+v, %v", fits, err) // 16 VFs are near node 1
	}
	s := l.create("ACTIVE", ports)
	held := l.held(s.ID)
	for _, d := range held {
		if d.NUMANode != 1 || l.allocation(s.ID)[provider.ID(d.Provider)][pci.PortVF] == 0 {
			t.Errorf("%s of node %d: the server holds %v", d.Address, d.NUMANode, l.allocation(s.ID))
		}
	}
	if len(held) != 4 {
		t.Errorf("%+v", held)
	}
}
