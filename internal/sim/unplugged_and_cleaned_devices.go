package sim

import (
	"time"

	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/pci"
)

// unplugSome unplugs a device, or the VFs of a PF too.
func (op *operations) unplugSome() {
	m := op.some()
	if len(m.away) > 3 || len(m.made) == 0 {
		return
	}
	d := m.made[op.rng.IntN(len(m.made))]
	for _, o := range m.made {
		if o.Address == d.Address || o.Parent != nil && *o.Parent == d.Holder() && d.Type != pci.Plain &&
			op.rng.IntN(2) == 0 {
			m.away[o.Address] = true
			delete(m.configured, o.Address)
			if m.portVFs {
				m.unplugged[o.Address] = true
			}
		}
	}
	op.note("unplug", "", m.tag, d.Address.String())
	op.agents.changed(m)
}

func (op *operations) plugSome() {
	m := op.some()
	for _, d := range m.made {
		if m.away[d.Address] {
			op.note("plug", "", m.tag, d.Address.String())
			delete(m.away, d.Address)
			op.agents.changed(m)
			return
		}
	}
}

// changed reports to the agent that the devices of its host have changed, as the kernel does.
func (am *agentModel) changed(m *simHost) {
	if m.agent != nil && am.broken != Unlooked {
		am.event(m, reconcile.DevicesChanged{})
	}
	am.mark(m)
}

// cleanSome requests that a device for one-time use is cleaned.
func (op *operations) cleanSome() {
	for range 6 {
		m := op.some()
		for _, d := range m.host.row.report.Devices {
			if op.compute.requestClean(m, d) {
				return
			}
		}
	}
}

// requestClean is `berth device clean`: it refuses devices that need not be cleaned, or that a server has.
func (cm *computeModel) requestClean(m *simHost, d pci.Offered) bool {
	if !d.Spent || d.Holder != "" {
		return false
	}
	row := m.host.row
	if row.cleans == nil {
		row.cleans = map[pci.Address]time.Time{}
	}
	row.cleans[d.Address] = beginning().Add(cm.clock)
	cm.note("clean", "", m.tag, d.Address.String())
	cm.raiseRevision(m.host)
	return true
}
