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
func (w *World) copySome() {
	if len(w.copies) > 0 && (len(w.copies) > 3 || w.halfTheTime()) {
		c := w.copies[w.rng.IntN(len(w.copies))]
		w.note(Copy, "", c.tag, "is switched off")
		w.switchOff(c)
		return
	}
	m := w.some()
	if w.halfTheTime() { // prefer a host whose agent does not report
		for _, o := range w.hosts {
			if o.agent == nil || o.cut {
				m = o
				break
			}
		}
	}
	if m.fresh || len(w.machines(m.name)) > 1 {
		return
	}
	c := w.twin(m)
	if w.oneIn(4) {
		c.install = c.tag
	}
	w.note(Copy, "", c.tag, "begins")
	w.report.Happened["directory copied"]++
	w.copies, w.byTag[c.tag] = append(w.copies, c), c
	w.start(c)
}

// twin is another machine like m with a copy of its agent's directory. It has no guests.
func (w *World) twin(m *simHost) *simHost {
	w.next++
	c := *m
	c.tag = fmt.Sprintf("%s'%d", m.name, w.next)
	c.away, c.guests = maps.Clone(m.away), map[string]*hypervisor.Guest{}
	c.built, c.late = map[string]bool{}, map[string]bool{}
	c.content = map[string]int{}
	c.agent, c.cut, c.zombie = nil, false, false
	c.configured, c.unplugged = map[pci.Address]string{}, maps.Clone(m.unplugged)
	return &c
}

// switchOff ends a machine with a copied directory, and all that runs on it.
func (w *World) switchOff(c *simHost) {
	w.crash(c)
	c.guests, c.configured = map[string]*hypervisor.Guest{}, map[pci.Address]string{}
	w.copies = slices.DeleteFunc(w.copies, func(o *simHost) bool { return o == c })
	delete(w.byTag, c.tag)
	w.active.drop(c.tag)
	w.marked = slices.DeleteFunc(w.marked, func(o *simHost) bool { return o == c })
	w.markHost(c.name)
}

// replaceSome takes a machine away for good, with all that ran there, and puts another one in its place that has a copy
// of the agent's directory.
func (w *World) replaceSome() {
	if !w.oneIn(3) {
		return
	}
	for i, m := range w.hosts {
		if m.agent != nil || m.host.row.dead || len(w.machines(m.name)) > 1 || w.oneIn(2) {
			continue
		}
		w.note(Replace, "", m.tag, fmt.Sprint(len(m.guests), " guests are lost"))
		w.report.Happened["machine replaced"]++
		c := w.twin(m)
		c.install = m.install
		delete(w.byTag, m.tag)
		w.active.drop(m.tag)
		m.guests = map[string]*hypervisor.Guest{}
		w.hosts[i], w.byName[c.name], w.byRoot[c.root], w.byTag[c.tag] = c, c, c, c
		w.start(c)
		return
	}
}

// replacedBy reports whether a copy of its directory serves the host of a machine or tries to.
func (w *World) replacedBy(m *simHost) bool { return len(w.machines(m.name)) > 1 }
