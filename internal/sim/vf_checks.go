package sim

import (
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
)

func hasInterface(list []hypervisor.Interface, port string, id device.ID) bool {
	return slices.ContainsFunc(list, func(i hypervisor.Interface) bool { return i.Port == port && i.Device == id })
}

// checkConfigured: a guest is built to run only with VFs that are configured for its ports. An unplugged VF loses its
// configuration, and the agent compares it later.
func (hv *hypervisorModel) checkConfigured(m *simHost, g hypervisor.Guest) {
	for _, i := range g.Interfaces {
		at := i.Device.Address()
		if i.VIF == "hw_veb" && !g.Stopped && !m.unplugged[at] && m.configured[at] != i.Port {
			hv.violation(m, "vf: the guest %s starts with %s for port %s, and it is configured for port %q", g.ID, at, i.Port,
				m.configured[at])
		}
	}
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

// isChanging reports whether a port with this request of a device is being attached to a server, or detached.
func isChanging(s lifecycle.Server, request string) bool {
	return s.PortChange != nil && s.PortChange.Device != nil && s.PortChange.Device.ID == request
}
