package sim

import (
	"fmt"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// nics returns the network interfaces of a machine: one for each PF that is plugged in.
func (m *simHost) nics() (list []facts.NIC) {
	for _, d := range m.devices() {
		if d.Type == pci.Physical {
			list = append(list, facts.NIC{Name: nicName(d.Address), Address: &d.Address, SpeedMbps: 10000})
		}
	}
	return list
}

func nicName(a pci.Address) string { return fmt.Sprintf("nic%d", a.Bus) }

// bandwidth returns what is configured about networks: a bridge on each machine, except with the second configuration,
// and the interfaces of PFs, of which the third configuration has one. The rates depend on the configuration.
func (m *simHost) bandwidth() []bandwidth.Agent {
	rate := bandwidth.Rate{Amount: 1000 * (m.rule + 1), Set: true}
	bridges := bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: m.name, VNICTypes: []string{"normal"},
		Tunnelled: "rp_tunnelled", PacketRates: map[string]bandwidth.Rate{m.name: rate},
		Mappings: []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}}, Bandwidths: map[string]bandwidth.Rates{}}
	if m.rule != 1 {
		bridges.Bandwidths["br-ex"] = bandwidth.Rates{Egress: rate, Ingress: rate}
	}
	nics := bandwidth.Agent{Type: bandwidth.NICSwitch, DefaultHypervisor: m.name, VNICTypes: []string{"direct"},
		Bandwidths: map[string]bandwidth.Rates{}}
	for _, d := range m.made {
		if d.Type == pci.Physical && (m.rule != 2 || len(nics.Mappings) == 0) {
			name := nicName(d.Address)
			nics.Mappings = append(nics.Mappings, bandwidth.Mapping{Physnet: "physnet1", Device: name})
			nics.Bandwidths[name] = bandwidth.Rates{Egress: rate}
		}
	}
	if len(nics.Mappings) == 0 {
		return []bandwidth.Agent{bridges}
	}
	return []bandwidth.Agent{bridges, nics}
}

// nicOf returns the bandwidth provider of the NIC of a VF.
func (m *simHost) nicOf(vf pci.Device) provider.ID {
	return bandwidth.Name{Hypervisor: m.name, Agent: bandwidth.NICSwitch, Device: nicName(*vf.Parent)}.ID()
}
