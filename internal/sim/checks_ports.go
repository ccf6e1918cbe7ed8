package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// checkPorts: the ports of a quiescent server are bound to its host, with an allocation that its server has in
// Placement, and Placement has nothing else of networks for it.
func (ck *checks) checkPorts(s lifecycle.Server) {
	if why := ck.portFault(s, ck.placement.Held(resource.ConsumerID(s.ID))); why != "" {
		ck.violation(ck.byName[s.Host], "port: server %s with the steps %v: %s", s.ID, s.Steps(), why)
	}
}

// portFault returns what is wrong with the ports of a quiescent server that holds an allocation; empty if nothing is.
func (ck *checks) portFault(s lifecycle.Server, held resource.Allocation) string {
	bound := 0
	for _, id := range ck.network.ids {
		p := ck.network.ports[id]
		if p.Device != s.ID {
			continue
		}
		bound++
		vif := "ovs"
		if p.VNIC == direct {
			vif = "hw_veb"
		}
		if p.Host != s.Host || s.Host != "" && p.VIF != vif {
			return fmt.Sprintf("%s is bound to %q as %s", id, p.Host, p.VIF)
		}
		if s.Host != "" && p.VNIC == direct {
			if why := ck.vfFault(s, p); why != "" {
				return id + ": " + why
			}
		}
	}
	if s.Host != "" && bound != len(s.Ports) {
		return fmt.Sprintf("%d ports are bound, and its record has %d", bound, len(s.Ports))
	}
	ck.report.Happened["ports bound"] += bound
	got := onlyPorts(held)
	if want := ck.network.guaranteed(s); !got.Equal(want) && !isShort(s) {
		return fmt.Sprintf("it holds %v for its ports, which request %v", got, want)
	}
	return ""
}

// onlyPorts returns what an allocation has for ports.
func onlyPorts(held resource.Allocation) resource.Allocation {
	all, rest := resource.Allocation{}, lifecycle.WithoutPorts(held)
	for id, amounts := range held {
		if len(rest[id]) == 0 {
			all[id] = amounts
		}
	}
	return all
}

// isShort reports whether compute has recorded that a port of a server has less than its changed policy requests,
// because the host has no room.
func isShort(s lifecycle.Server) bool {
	for _, p := range s.Ports {
		for _, g := range p.Groups {
			if len(g.Resources.Positive()) > 0 && p.Allocation[g.Suffix] == "" {
				return true
			}
		}
	}
	return slices.ContainsFunc(s.History, func(h lifecycle.HistoryEntry) bool {
		return strings.Contains(h.Text, "keeps the guarantee that it had before")
	})
}

// vfFault returns what is wrong with the VF of a port of a quiescent server; empty if nothing is. The agent has picked
// it for the port, on the provider that was chosen, the guest has it as an interface, and it is configured for the port
// while the guest runs.
func (ck *checks) vfFault(s lifecycle.Server, p network.Port) string {
	m := ck.byName[s.Host]
	if why := ck.network.nicFault(p); why != "" {
		return why
	}
	picked, needed := s.DeviceOf(p.ID)
	if !needed || picked.Address != network.SlotOf(p.Profile) {
		return fmt.Sprintf("it is bound with %s, and the record of its server has %q", network.SlotOf(p.Profile),
			picked.Address)
	}
	vf, _ := m.portVF(network.SlotOf(p.Profile))
	if m.agent == nil {
		return "its host has no agent"
	}
	e, _ := m.agent.state.Devices().At(device.PCI(vf.Address))
	if string(e.Holder) != s.ID || e.RequestID != picked.RequestID {
		return fmt.Sprintf("%s is held by %q for request %q", vf.Address, e.Holder, e.RequestID)
	}
	for _, r := range s.Requests {
		if r.ID == picked.RequestID && (len(r.Providers) != 1 || r.Providers[0] != e.Provider) {
			return fmt.Sprintf("%s is of provider %s, and %v was chosen", vf.Address, e.Provider, r.Providers)
		}
	}
	g := m.guests[s.ID]
	switch {
	case g == nil:
		return "its server has no guest"
	case !hasInterface(g.Interfaces, p.ID, e.ID()):
		return fmt.Sprintf("the guest has no interface of it with %s: %+v", vf.Address, g.Interfaces)
	case !g.Stopped && m.configured[vf.Address] != p.ID:
		return fmt.Sprintf("%s is configured for port %q", vf.Address, m.configured[vf.Address])
	}
	return ""
}

// checkHeldForPorts: each VF for ports that a quiescent host holds is for an existing port of the server that holds it,
// and no other VF is configured.
func (ck *checks) checkHeldForPorts(m *simHost) {
	held := map[pci.Address]bool{}
	for _, e := range m.agent.state.Devices().Entries() {
		if e.Holder == "" || !isPortVF(e.Device) {
			continue
		}
		held[e.Device.Address] = true
		owner := ck.ownerOf[string(e.Holder)]
		port := ck.portOfRequest(m, string(e.Holder), e.RequestID)
		if p, exists := ck.network.ports[port]; !exists || p.Device != owner {
			ck.violation(m, "held port: %s is held by %s for port %q, which is not a port of server %s", e.Device.Address,
				e.Holder, port, owner)
		}
		ck.report.Happened["VF of a port"]++
	}
	for _, d := range m.made {
		if port := m.configured[d.Address]; port != "" && !held[d.Address] {
			ck.violation(m, "vf: %s is configured for port %s, and no guest has it", d.Address, port)
		}
	}
	ck.checkSlots(m)
}

// checkSlots: no VF of a quiescent host is bound to two ports.
func (ck *checks) checkSlots(m *simHost) {
	bound := map[string]string{} // port by slot
	for _, id := range ck.network.ids {
		p := ck.network.ports[id]
		slot := network.SlotOf(p.Profile)
		if p.Host != m.name || slot == "" {
			continue
		}
		if by := bound[slot]; by != "" {
			ck.violation(m, "vf: %s is bound to port %s and to port %s", slot, by, id)
		}
		bound[slot] = id
	}
}

// portOfRequest returns the port of a request that a consumer has on a host; empty if there is none.
func (ck *checks) portOfRequest(m *simHost, consumer, request string) string {
	for _, residence := range ck.compute.servers[ck.ownerOf[consumer]].Residences() {
		if residence.Consumer != consumer || residence.Host != m.name {
			continue
		}
		for _, r := range residence.Requests {
			if r.ID == request && r.Port != nil {
				return r.Port.ID
			}
		}
	}
	return ""
}

func hasInterface(list []hypervisor.Interface, port string, id device.ID) bool {
	return slices.ContainsFunc(list, func(i hypervisor.Interface) bool { return i.Port == port && i.Device == id })
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
