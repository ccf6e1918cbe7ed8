package sim

import (
	"time"

	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// unplugSome unplugs a device, or the VFs of a PF too.
func (w *World) unplugSome() {
	m := w.some()
	if len(m.away) > 3 || len(m.made) == 0 {
		return
	}
	d := m.made[w.rng.IntN(len(m.made))]
	for _, o := range m.made {
		if o.Address == d.Address || o.Parent != nil && *o.Parent == d.Holder() && d.Type != pci.Plain && w.rng.IntN(2) == 0 {
			m.away[o.Address] = true
			delete(m.configured, o.Address)
			if m.portVFs {
				m.unplugged[o.Address] = true
			}
		}
	}
	w.note("unplug", "", m.tag, d.Address.String())
	w.changed(m)
}

func (w *World) plugSome() {
	m := w.some()
	for _, d := range m.made {
		if m.away[d.Address] {
			w.note("plug", "", m.tag, d.Address.String())
			delete(m.away, d.Address)
			w.changed(m)
			return
		}
	}
}

// changed reports to the agent that the devices of its host have changed, as the kernel does.
func (w *World) changed(m *simHost) {
	if m.agent != nil && w.broken != Unlooked {
		w.event(m, reconcile.DevicesChanged{})
	}
	w.mark(m)
}

// cleanSome requests that a device for one-time use is cleaned.
func (w *World) cleanSome() {
	for range 6 {
		m := w.some()
		for _, d := range m.host.row.report.Devices {
			if w.requestClean(m, d) {
				return
			}
		}
	}
}

// requestClean is `berth device clean`: it refuses devices that need not be cleaned, or that a server has.
func (w *World) requestClean(m *simHost, d schedule.Device) bool {
	if !d.Spent || d.Holder != "" {
		return false
	}
	row := m.host.row
	if row.cleans == nil {
		row.cleans = map[pci.Address]time.Time{}
	}
	row.cleans[d.Address] = beginning().Add(w.clock)
	w.note("clean", "", m.tag, d.Address.String())
	w.compute.raiseRevision(m.host)
	return true
}
