package sim

import (
	"fmt"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// This file is the hardware that serves ports of vnic type direct: NICs with VFs, their configuration, and the checks
// that are made when something of it changes.

// portVF returns a VF for ports by the text of its address. ok is false if the machine has none.
func (m *simHost) portVF(address string) (vf pci.Device, ok bool) {
	for _, d := range m.made {
		if isPortVF(d) && d.Address.String() == address {
			return d, true
		}
	}
	return vf, false
}

// nicOf returns the bandwidth provider of the NIC of a VF.
func (m *simHost) nicOf(vf pci.Device) provider.ID {
	return bandwidth.Name{Hypervisor: m.name, Agent: bandwidth.NICSwitch, Device: nicName(*vf.Parent)}.ID()
}

// configureVFs configures the VFs of a guest for its ports. Each of them must be in the journal for the guest.
func (hv *hypervisorModel) configureVFs(m *simHost, e reconcile.ConfigureVFs) error {
	for _, a := range e.VFs {
		at := a.Device.Address()
		if a.Port.ID == "" {
			continue
		}
		if m.away[at] {
			return fault.New(fault.NotFound, "there is no device %s", at)
		}
		if by := m.journalHolder(at); by != e.Work && by != m.journalID(e.Work) && !m.fresh {
			hv.violation(m, "vf: %s is configured for port %s of %s, and the journal gives it to %q", at, a.Port.ID, e.Work, by)
		}
		m.configured[at] = a.Port.ID
		delete(m.unplugged, at)
	}
	return nil
}

// resetVFs removes the configuration of VFs, which no running guest may have.
func (hv *hypervisorModel) resetVFs(m *simHost, devices []device.ID) error {
	for _, id := range devices {
		for _, g := range m.guests {
			for _, d := range g.Devices {
				if d.ID == id && !g.Stopped && !g.Departed {
					hv.violation(m, "vf: %s is reset, and the guest %s runs with it", id, g.ID)
				}
			}
		}
		delete(m.configured, id.Address())
	}
	return nil
}

// compareVFs configures the VFs of running guests that are not configured as their ports, as the loop of the agent does
// from time to time.
func (hv *hypervisorModel) compareVFs(m *simHost) {
	if m.agent == nil || !m.portVFs {
		return
	}
	for _, a := range m.agent.state.AssignedVFs() {
		if at := a.Device.Address(); a.Port.ID != "" && !m.away[at] {
			m.configured[at] = a.Port.ID
		}
	}
}

// journalHolder returns the consumer that the journal of a machine gives a device to; empty if there is none.
func (m *simHost) journalHolder(at pci.Address) string {
	for _, c := range m.disk.found.Claims() {
		if c.Device.Address == at {
			return string(c.Holder)
		}
	}
	return ""
}

// directVIF binds a port of vnic type direct: it must have a VF of its physical network.
func (nm *networkModel) directVIF(p network.Port) string {
	if physnet, _ := p.Profile["physical_network"].(string); network.SlotOf(p.Profile) == "" || physnet != "physnet1" {
		return "binding_failed"
	}
	nm.checkNIC(p)
	return "hw_veb"
}

// checkNIC: a port is bound with a VF of its host, and what it requests of bandwidth is allocated on the NIC of the VF.
func (nm *networkModel) checkNIC(p network.Port) {
	if why := nm.nicFault(p); why != "" && !nm.rolledBack[p.Device] && !nm.altered[p.Device] {
		nm.violation(nm.byName[p.Host], "nic: port %s of server %s is bound with %s: %s", p.ID, p.Device,
			network.SlotOf(p.Profile), why)
	}
}

// nicFault returns what is wrong with the VF and the allocation of a bound port; empty if nothing is.
func (nm *networkModel) nicFault(p network.Port) string {
	m := nm.byName[p.Host]
	vf, ok := m.portVF(network.SlotOf(p.Profile))
	if !ok {
		return "its host has no such VF for ports"
	}
	for group, on := range p.Allocation() {
		if provider.ID(on) != m.nicOf(vf) {
			return fmt.Sprintf("the group %s is allocated on %s, and the NIC of the VF is %s", group, on, m.nicOf(vf))
		}
	}
	if p.Request != nil && len(p.Allocation()) != len(p.Request.Groups) {
		return fmt.Sprintf("%d groups are allocated, and it requests %d", len(p.Allocation()), len(p.Request.Groups))
	}
	return ""
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

// forgetConfigured takes VFs as not configured that no guest has: after the journal is lost, the agent does not know
// them any more. The next port that gets one replaces its configuration.
func (m *simHost) forgetConfigured() {
	had := map[pci.Address]bool{}
	for _, g := range m.guests {
		for _, at := range addresses(*g) {
			had[at] = true
		}
	}
	for at := range m.configured {
		if !had[at] {
			delete(m.configured, at)
		}
	}
}
