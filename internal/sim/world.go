package sim

import (
	"math/rand/v2"
	"slices"
)

// World is the simulated cloud with what happens to it and what is checked of it.
type World struct {
	*cloud
	*operations
	*checks
	*repairs
	probes *probes
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
	w.probes = &probes{cloud: c, checks: w.checks}
	w.operations = &operations{c, &losses{cloud: c}, w.repairs}
	w.advance(0)
	const size = 12 // hosts of a zone: two of each kind
	var varied *rand.Rand
	if o.Varied {
		varied = rand.New(rand.NewPCG(o.Seed, 1))
	}
	for i := range o.Hosts {
		m := build(i, i/size, !slices.Contains(o.Without, Ports), func(m *simHost) [usualRules]string {
			if varied != nil {
				return m.vary(varied, i/size)
			}
			return m.devicesOf(i, i/size)
		})
		m.host = &hostState{name: m.name}
		w.compute.states[m.name] = m.host
		w.hosts, w.byName[m.name], w.byRoot[m.root], w.byTag[m.tag] = append(w.hosts, m), m, m, m
		if i%size == 0 {
			w.zones = append(w.zones, newZone(i/size, o.Varied))
		}
	}
	w.compute.aliases = aliasesOf(w.zones)
	for i := range w.zones {
		w.varyFlavors(i, varied)
	}
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
