package sim

import "slices"

// World is the simulated cloud with what happens to it and what is checked of it.
type World struct {
	*cloud
	*operations
	*checks
	*repairs
}

func newWorld(o Options) *World {
	if o.Hosts == 0 {
		o.Hosts = 120
	}
	if o.Quiet == 0 {
		o.Quiet = 20000
	}
	c := newCloud(o)
	w := &World{cloud: c, checks: &checks{c, map[string][]*simHost{}}}
	w.repairs = &repairs{c, w.checks}
	w.operations = &operations{c, &losses{cloud: c}, w.repairs}
	w.advance(0)
	const size = 12 // hosts of a zone: two of each kind
	for i := range o.Hosts {
		m := build(i, i/size, !slices.Contains(o.Without, Ports))
		m.host = &hostState{name: m.name}
		w.compute.states[m.name] = m.host
		w.hosts, w.byName[m.name], w.byRoot[m.root], w.byTag[m.tag] = append(w.hosts, m), m, m, m
		if i%size == 0 {
			w.zones = append(w.zones, newZone(i/size))
		}
	}
	w.compute.aliases = aliasesOf(w.zones)
	w.compute.setDatabase(newDatabase(w.name("cloud"), w.compute.states))
	w.compute.startProcess()
	w.noFailures = true
	for _, m := range w.hosts {
		w.agents.start(m)
		for m.agent != nil && w.agents.act(m) {
		}
	}
	w.noFailures = false
	return w
}
