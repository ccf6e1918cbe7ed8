package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/treeplan"
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

// checkBandwidth: Placement has the configured bandwidth providers of a quiescent host, and no other.
func (ck *checks) checkBandwidth(m *simHost) {
	wanted := map[provider.ID]bool{}
	for _, a := range m.bandwidth() {
		for _, d := range a.Providers() {
			want := d.Provider
			if wanted[want.ID] = true; want.Parent == "" {
				want.Parent = m.root
			}
			p, _ := ck.placement.Provider(want.ID)
			if p.Name != want.Name || p.Parent != want.Parent || !maps.Equal(p.Inventories, want.Inventories) ||
				!slices.Equal(p.Traits, want.Traits) {
				ck.violation(m, "bandwidth: Placement has %+v, want %+v", p, want)
			}
		}
	}
	for _, id := range ck.placement.TreeIDs(m.root) {
		p, _ := ck.placement.Provider(id)
		if _, is := bandwidth.Recognise(p); is && !wanted[id] && !ck.placement.keptForPorts(p) {
			ck.violation(m, "bandwidth: Placement has %s, which is not configured", p.Name)
		}
	}
	ck.report.Happened["bandwidth reported"] += len(wanted)
}

// keptForPorts reports whether a provider that is not configured any more is in use by ports, or has such a child, or
// the provider of VFs that are in use: nothing more of it can be allocated.
func (pm *placementModel) keptForPorts(p provider.Provider) bool {
	for _, inv := range p.Inventories {
		if inv.Reserved < inv.Total {
			return false
		}
	}
	if len(pm.Used(p.ID)) > 0 {
		return true
	}
	return slices.ContainsFunc(pm.TreeIDs(p.Root), func(id provider.ID) bool {
		child, _ := pm.Provider(id)
		_, network := bandwidth.Recognise(child)
		return child.Parent == p.ID && (network && pm.keptForPorts(child) || !network && len(pm.Used(id)) > 0)
	})
}

// hasFormerBandwidth reports whether Placement has bandwidth of a host that is not configured any more.
func (pm *placementModel) hasFormerBandwidth(m *simHost) bool {
	configured := map[provider.ID]bool{}
	for _, a := range m.bandwidth() {
		for _, d := range a.Providers() {
			configured[d.Provider.ID] = true
		}
	}
	return slices.ContainsFunc(pm.TreeIDs(m.root), func(id provider.ID) bool {
		p, _ := pm.Provider(id)
		_, is := bandwidth.Recognise(p)
		return is && !configured[id]
	})
}

// isOfPorts reports whether an objection is about bandwidth that ports use, or whose provider stays because of devices
// in use: the agent can only report it.
func (pm *placementModel) isOfPorts(o treeplan.Objection) bool {
	p, _ := pm.Provider(o.Provider)
	_, network := bandwidth.Recognise(p)
	return network && (len(pm.Used(o.Provider)) > 0 || pm.keptForPorts(p))
}
