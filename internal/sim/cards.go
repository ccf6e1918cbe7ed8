package sim

import (
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// removeVFs removes the VFs of PFs, which no guest may have. The journal must have their number, and the PF for a
// server.
func (hv *hypervisorModel) removeVFs(m *simHost, pfs []device.ID) error {
	for _, id := range pfs {
		pf := id.Address()
		if hv.chance(Builds, 20) {
			return fault.New(fault.Unavailable, "the driver of %s does not remove the VFs now", pf)
		}
		if m.away[pf] {
			return fault.New(fault.Unavailable, "cannot read the number of VFs of %s", pf)
		}
		if m.bare[pf] || m.numVFs(id) == 0 {
			continue
		}
		for _, d := range m.devices() {
			for _, g := range m.guests {
				if d.Parent != nil && *d.Parent == pf && hasDevice(*g, device.PCI(d.Address)) && !g.Departed {
					hv.violation(m, "card: the VFs of %s are removed, and the guest %s has %s", pf, g.ID, d.Address)
				}
			}
		}
		if m.journalHolder(pf) == "" || m.disk.found.VFs()[id] == 0 && m.numVFs(id) > 0 {
			hv.violation(m, "card: the VFs of %s are removed, and the journal has %d for %q", pf, m.disk.found.VFs()[id],
				m.journalHolder(pf))
		}
		m.bare[pf] = true
		hv.report.Happened["VFs removed"]++
	}
	return nil
}

// restoreVFs gives a PF its VFs again, which no guest may have.
func (hv *hypervisorModel) restoreVFs(m *simHost, id device.ID) error {
	if hv.chance(Builds, 20) {
		return fault.New(fault.Unavailable, "the driver of %s is not bound", id)
	}
	for _, g := range m.guests {
		if hasDevice(*g, id) && !g.Departed {
			hv.violation(m, "card: the VFs of %s are restored, and the guest %s has it", id, g.ID)
		}
	}
	delete(m.bare, id.Address())
	hv.report.Happened["VFs restored"]++
	return nil
}

// checkCards: a guest is not started with a PF that was claimed as a whole card and has VFs.
func (hv *hypervisorModel) checkCards(m *simHost, g hypervisor.Guest) {
	claims, _ := m.disk.found.Of(g.ID)
	for _, c := range claims {
		if c.Slices > 0 && !g.Stopped && m.numVFs(c.ID()) > 0 && hasDevice(g, c.ID()) {
			hv.violation(m, "card: the guest %s starts with %s, which has %d VFs", g.ID, c.Device.Address, m.numVFs(c.ID()))
		}
	}
}

// checkRestored: at a rest, a PF without VFs is held.
func (ck *checks) checkRestored(m *simHost) {
	for pf := range m.bare {
		if !m.away[pf] && m.journalHolder(pf) == "" {
			ck.violation(m, "card: %s is free and has no VFs", pf)
		}
	}
}

// wholeCards returns how many slices the cards of a machine have that its agent offers as their PFs and as their VFs,
// by provider.
func (m *simHost) wholeCards() map[provider.ID]int {
	out := map[provider.ID]int{}
	for _, e := range m.agent.state.Devices().Entries() {
		if e.Slices > 0 && e.Provider != "" {
			out[e.Provider] = e.Slices
		}
	}
	return out
}

// forgetRemoved restores the VFs of the PFs that no guest has, as an operator does: after the journal is lost, the
// agent does not know that it has removed them.
func (m *simHost) forgetRemoved() {
	for pf := range m.bare {
		held := false
		for _, g := range m.guests {
			held = held || hasDevice(*g, device.PCI(pf))
		}
		if !held {
			delete(m.bare, pf)
		}
	}
}

// numVFs returns the number of VFs of a device now.
func (m *simHost) numVFs(id device.ID) int {
	for _, d := range m.devices() {
		if device.PCI(d.Address) == id {
			return d.NumVFs
		}
	}
	return 0
}

func hasDevice(g hypervisor.Guest, id device.ID) bool {
	for _, d := range g.Devices {
		if d.ID == id {
			return true
		}
	}
	return false
}
