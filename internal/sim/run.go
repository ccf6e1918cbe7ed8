package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
)

// Run runs a simulation. It ends at the first violation.
func Run(o Options) Report {
	w := newWorld(o)
	for w.n = 1; w.n <= o.Ops && w.failure == ""; w.n++ {
		w.advance(time.Second)
		w.operate()
		w.checkMarked()
		if w.failure == "" && w.n%w.options.Quiet == 0 {
			w.quiesce()
		}
	}
	if w.failure == "" {
		w.finish()
	}
	w.report.Seed, w.report.Ops = o.Seed, min(w.n, o.Ops)
	if w.failure != "" {
		w.report.Failure = fmt.Sprintf("seed %d, operation %d: %s\n%s", o.Seed, w.n, w.failure, w.excerpt())
	}
	return w.report
}

// Shrink repeats a failed simulation without one more kind of operations and failures at a time, and returns the
// smallest one that still fails.
func Shrink(o Options, failed Report) (Options, Report) {
	o.Ops = failed.Ops
	for _, kind := range append(kindsOfOps(), Crashes, Messages, Disks, Answers, Builds, Lists, Foreign, Ends) {
		less := o
		less.Without = append(slices.Clone(o.Without), kind)
		if r := Run(less); r.Failure != "" {
			o, failed = less, r
			o.Ops = r.Ops
		}
	}
	return o, failed
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
	w.compute.setDatabase(newDatabase(w.name("cloud"), w.hosts, 0))
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

// newCloud returns the models of a cloud without hosts.
func newCloud(o Options) *cloud {
	k := &kernel{options: o, broken: o.Broken, rng: rand.New(rand.NewPCG(o.Seed, 0)), ownerOf: map[string]string{},
		report: Report{Done: map[string]int{}, Happened: map[string]int{}}}
	hm := &hostModel{kernel: k, byName: map[string]*simHost{}, byRoot: map[provider.ID]*simHost{},
		byTag: map[string]*simHost{}}
	x := &exemptions{altered: map[string]bool{}, rolledBack: map[string]bool{}, evacuated: map[string]bool{},
		putBack: map[string]bool{}, portChanges: map[string]bool{}}
	pm := newPlacement(k, hm, x)
	nm := &networkModel{kernel: k, hostModel: hm, exemptions: x, placement: pm, ports: map[string]network.Port{},
		inactive: map[string]map[string]network.PortBinding{}}
	im := &imageModel{kernel: k, all: map[string]simImage{}, lost: map[string]bool{}}
	cm := &computeModel{kernel: k, hostModel: hm, exemptions: x, placement: pm, network: nm, images: im,
		histories: histories{[]history{{}}, 1}, states: map[string]*hostState{}, process: &process{kernel: k, ended: true}}
	hv := &hypervisorModel{kernel: k, hostModel: hm, exemptions: x, placement: pm, images: im, compute: cm}
	am := &agentModel{kernel: k, hostModel: hm, exemptions: x, placement: pm, images: im, compute: cm, hypervisor: hv}
	return &cloud{k, hm, x, pm, nm, im, cm, hv, am}
}

func newPlacement(k *kernel, hm *hostModel, x *exemptions) *placementModel {
	pm := &placementModel{kernel: k, hostModel: hm, exemptions: x, cleaned: map[provider.ID]bool{},
		lowered: map[inventory]int{}}
	pm.Placement = placementtest.New(func(root provider.ID) {
		if m := hm.byRoot[root]; m != nil {
			hm.markHost(m.name)
		}
	})
	if k.options.Seed%2 == 1 {
		pm.RefuseOverCapacity()
	}
	return pm
}
