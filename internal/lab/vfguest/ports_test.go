//go:build lab || nested

package vfguest

import (
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/provider"
)

// port creates a port of vnic type direct.
func (m *machine) port(net string, attributes map[string]any) network.Port {
	m.t.Helper()
	all := map[string]any{"network_id": net, "binding:vnic_type": "direct"}
	for name, value := range attributes {
		all[name] = value
	}
	port, err := m.network.CreatePort(m.t.Context(), all)
	must(m.t, err)
	return port
}

// prepare creates a flavor and a network with a VLAN, after the PFs of VFs are reported to Placement and to the network
// service.
func (m *machine) prepare(vfs ...string) (net string) {
	m.t.Helper()
	ctx := m.t.Context()
	for _, vf := range vfs {
		pf := m.find(vf).Interface
		m.till("the bandwidth of "+pf+" and its VFs are reported", func() bool {
			nic, err := m.placement.ProviderByName(ctx, "lab:NIC Switch agent:"+pf)
			if err != nil {
				return false
			}
			tree, err := m.placement.Tree(ctx, nic.ID)
			return err == nil && slices.ContainsFunc(tree.Providers, func(p provider.Provider) bool {
				return p.Parent == nic.ID && p.Inventories["SRIOV_NET_VF"].Total > 0
			})
		})
	}
	m.till("the agent is reported", func() bool {
		agents, err := m.network.Agents(ctx, nil)
		return err == nil && len(agents) == 1
	})
	_, err := m.compute.CreateFlavor(ctx, compute.CreateFlavor{ID: "small", Name: "small", VCPUs: 1, RAM: 32})
	must(m.t, err)
	n, err := m.network.CreateNetwork(ctx, map[string]any{"provider:network_type": "vlan",
		"provider:physical_network": "physnet0", "provider:segmentation_id": 7})
	must(m.t, err)
	_, err = m.network.CreateSubnet(ctx, map[string]any{"network_id": n.ID, "ip_version": 4, "cidr": "10.7.0.0/24"})
	must(m.t, err)
	return n.ID
}

// VFs: third is one of the second PF.
const (
	first  = "0000:12:10.0"
	second = "0000:12:10.2"
	third  = "0000:23:10.0"
	other  = "0000:12:10.4"
)

// holder returns the holder of a device according to compute.
func (m *machine) holder(address string) string {
	all, err := m.hosts.Devices(m.t.Context())
	if err != nil {
		return "unknown"
	}
	for _, d := range all {
		if d.Address == address {
			return d.Holder
		}
	}
	return "no device"
}
