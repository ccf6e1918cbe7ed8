package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/pci"
)

// far limits how long a host is away.
const far = 20 * time.Minute

// restartSome kills an agent and starts it again, as after a reboot of the host.
func (op *operations) restartSome() {
	m := op.some()
	if op.rng.IntN(2) == 0 {
		for _, o := range slices.Concat(op.copies, op.hosts) {
			if o.agent == nil && !o.host.row.dead {
				m = o
				break
			}
		}
	}
	if m.cut || m.frozen || m.host.row.dead {
		return
	}
	op.note("restart", "", m.tag, "")
	op.agents.crash(m)
	op.agents.start(m)
}

// downSome ends an agent or cuts its host off. An operator may declare a host dead that has been away for a while.
func (op *operations) downSome() {
	m, down := op.some(), 0
	op.compute.reconcileDead()
	for _, o := range op.hosts {
		if o.agent == nil || o.cut || o.frozen {
			down++
		}
	}
	if down > len(op.hosts)/10 {
		return
	}
	text := "silent"
	if m.agent != nil && !m.cut && !m.frozen {
		switch op.rng.IntN(3) {
		case 0:
			op.agents.disconnect(m)
			m.cut, text = true, "cut off"
		case 1:
			m.frozen, text = true, "frozen"
			op.report.Happened["agent frozen"]++
		default:
			op.agents.crash(m)
		}
	} else if !m.host.row.dead && op.away(m) > far/4 {
		op.declareDead(m)
		text = "dead"
	}
	op.note("down", "", m.tag, text)
}

// checkFollowed lets compute compare the assignments of all hosts with what their agents have followed.
func (op *operations) checkFollowed() {
	op.note("unfollowed", "", "", "")
	_ = op.compute.conductor.CheckAssignments(background)
}

// declareDead has an operator declare a host dead. Its guests may exist.
func (op *operations) declareDead(m *simHost) {
	if op.compute.hostDown(m.host) {
		op.mayHaveGuests(m)
	}
}

// upSome brings a host back, with its journal.
func (op *operations) upSome() {
	for _, m := range op.hosts {
		if (m.agent == nil || m.cut || m.frozen) && op.away(m) > far/8 && op.rng.IntN(3) == 0 {
			if op.rng.IntN(4) == 0 && !m.host.row.dead {
				op.declareDead(m)
				op.note("dead", "", m.tag, "")
				return
			}
			op.bringUp(m)
			return
		}
	}
}

// bringUp ends the outage of a host.
func (op *operations) bringUp(m *simHost) {
	op.note("up", "", m.tag, "")
	if !op.compute.hostUp(m.host) {
		return
	}
	m.cut, m.frozen = false, false
	op.mark(m)
	if m.agent == nil {
		op.agents.start(m)
	} else {
		op.agents.changed(m)
	}
}

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
			if m.isLastVF(o) {
				continue
			}
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

// isLastVF reports whether a device is the only VF that a card with shapes has left. It is not unplugged alone: a PF
// whose sriov_numvfs is not 0 has VFs.
func (m *simHost) isLastVF(vf pci.Device) bool {
	return m.bare != nil && vf.Parent != nil && !slices.ContainsFunc(m.made, func(d pci.Device) bool {
		return d.Parent != nil && *d.Parent == *vf.Parent && d.Address != vf.Address && !m.away[d.Address]
	})
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

// ruleSome changes the configuration of a host and restarts its agent.
func (op *operations) ruleSome() {
	m := op.some()
	if m.agent == nil || m.cut {
		return
	}
	if m.rule = op.rng.IntN(usualRules); op.rng.IntN(2) == 0 {
		m.rule = 0
	}
	m.nodesInPlacement = op.rng.IntN(2) == 0
	op.note("rules", "", m.tag, m.rules[m.rule][0].String())
	op.agents.crash(m)
	op.agents.start(m)
}

// disableSome disables a device, or a PF with its VFs.
func (op *operations) disableSome() {
	m := op.some()
	devices := m.host.row.report.Devices
	if len(devices) == 0 || len(m.host.row.devices.disabled) > 2 {
		return
	}
	d := devices[op.rng.IntN(len(devices))]
	at, until := d.Address, time.Time{}
	if op.oneIn(4) {
		at = d.Device.Holder()
	}
	if op.oneIn(3) {
		until = op.now.Add(time.Duration(20+op.rng.IntN(40)) * time.Minute).Truncate(time.Second)
	}
	op.disable(m, at, until)
}

// enableSome enables a device of some host.
func (op *operations) enableSome() {
	for range 6 {
		m := op.some()
		var all []pci.Address
		for _, d := range m.host.row.report.Disabled {
			all = append(all, d.Address)
		}
		all = append(all, slices.SortedFunc(maps.Keys(m.host.row.devices.disabled), pci.Address.Compare)...)
		if len(all) > 0 {
			op.compute.enableDevice(m, all[op.rng.IntN(len(all))])
			return
		}
	}
}

// disable is `berth device disable`.
func (op *operations) disable(m *simHost, at pci.Address, until time.Time) {
	r := m.host.row.devices.made()
	for _, o := range op.machines(m.name) {
		delete(o.service.out, at) // until its agent has reported this one
	}
	r.disabled[at] = pci.Disablement{ID: op.name("disabled"), Address: at, Reason: "the operator says so", Since: op.now,
		Until: until}
	for _, d := range m.host.row.report.Devices {
		if d.Address == at || d.Parent != nil && *d.Parent == at {
			op.placement.disabled[d.Provider] = true
		}
	}
	op.note("disable", "", m.tag, fmt.Sprint(at, " until ", until))
	op.compute.raiseRevision(m.host)
}
