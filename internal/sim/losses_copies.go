package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/pci"
)

// copySome copies the directory of an agent to another machine, whose agent then tries to serve the same host, or
// switches such a machine off.
func (ls *losses) copySome() {
	if len(ls.copies) > 0 && (len(ls.copies) > 3 || ls.halfTheTime()) {
		c := ls.copies[ls.rng.IntN(len(ls.copies))]
		ls.note(Copy, "", c.tag, "is switched off")
		ls.switchOff(c)
		return
	}
	m := ls.some()
	if ls.halfTheTime() { // prefer a host whose agent does not report
		for _, o := range ls.hosts {
			if o.agent == nil || o.cut {
				m = o
				break
			}
		}
	}
	if m.fresh || len(ls.machines(m.name)) > 1 {
		return
	}
	c := ls.twin(m)
	if ls.oneIn(4) {
		c.install = c.tag
	}
	ls.note(Copy, "", c.tag, "begins")
	ls.report.Happened["directory copied"]++
	ls.copies, ls.byTag[c.tag] = append(ls.copies, c), c
	ls.agents.start(c)
}

// twin is another machine like m with a copy of its agent's directory. It has no guests.
func (ls *losses) twin(m *simHost) *simHost {
	ls.next++
	c := *m
	c.tag = fmt.Sprintf("%s'%d", m.name, ls.next)
	c.away, c.hypervised = maps.Clone(m.away), newHypervised()
	c.agent, c.cut, c.zombie = nil, false, false
	c.configured, c.unplugged = map[pci.Address]string{}, maps.Clone(m.unplugged)
	return &c
}

// switchOff ends a machine with a copied directory, and all that runs on it.
func (ls *losses) switchOff(c *simHost) {
	ls.agents.crash(c)
	c.guests, c.configured = map[string]*hypervisor.Guest{}, map[pci.Address]string{}
	ls.copies = slices.DeleteFunc(ls.copies, func(o *simHost) bool { return o == c })
	delete(ls.byTag, c.tag)
	ls.active.drop(c.tag)
	ls.marked = slices.DeleteFunc(ls.marked, func(o *simHost) bool { return o == c })
	ls.markHost(c.name)
}

// replaceSome takes a machine away for good, with all that ran there, and puts another one in its place that has a copy
// of the agent's directory.
func (ls *losses) replaceSome() {
	if !ls.oneIn(3) {
		return
	}
	for i, m := range ls.hosts {
		if m.agent != nil || m.host.row.dead || len(ls.machines(m.name)) > 1 || ls.oneIn(2) {
			continue
		}
		ls.note(Replace, "", m.tag, fmt.Sprint(len(m.guests), " guests are lost"))
		ls.report.Happened["machine replaced"]++
		c := ls.twin(m)
		c.install = m.install
		delete(ls.byTag, m.tag)
		ls.active.drop(m.tag)
		m.guests = map[string]*hypervisor.Guest{}
		ls.hosts[i], ls.byName[c.name], ls.byRoot[c.root], ls.byTag[c.tag] = c, c, c, c
		ls.agents.start(c)
		return
	}
}
