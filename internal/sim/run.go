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
		if w.failure == "" && w.n%w.o.Quiet == 0 {
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
	w := &World{o: o, broken: o.Broken, rng: rand.New(rand.NewPCG(o.Seed, 0)),
		byName: map[string]*simHost{}, byRoot: map[provider.ID]*simHost{}, byTag: map[string]*simHost{},
		altered: map[string]bool{}, owners: map[string]string{},
		histories: []history{{}}, runs: map[string][]*simHost{},
		images: map[string]simImage{}, lostImages: map[string]bool{},
		rolledBack: map[string]bool{}, evacuated: map[string]bool{},
		putBack: map[string]bool{}, portChanges: map[string]bool{},
		seq: 1}
	w.report.Done, w.report.Happened = map[string]int{}, map[string]int{}
	w.cleaned, w.lowered = map[provider.ID]bool{}, map[inventory]int{}
	w.placement = placementtest.New(func(root provider.ID) {
		if m := w.byRoot[root]; m != nil {
			w.markHost(m.name)
		}
	})
	if o.Seed%2 == 1 {
		w.placement.RefuseOverCapacity()
	}
	w.network = &networkService{w: w, ports: map[string]network.Port{},
		inactive: map[string]map[string]network.PortBinding{}}
	w.compute = &compute{w: w, hosts: map[string]*hostState{}, process: &process{w: w, ended: true}}
	w.advance(0)
	const size = 12 // hosts of a zone: two of each kind
	for i := range o.Hosts {
		m := build(i, i/size, !slices.Contains(o.Without, Ports))
		m.host = &hostState{name: m.name}
		w.compute.hosts[m.name] = m.host
		w.hosts, w.byName[m.name], w.byRoot[m.root], w.byTag[m.tag] = append(w.hosts, m), m, m, m
		if i%size == 0 {
			w.zones = append(w.zones, newZone(i/size))
		}
	}
	w.allAliases = w.aliases()
	w.compute.setDatabase(newDatabase(w.name("cloud"), w.hosts, 0))
	w.compute.startProcess()
	w.noFailures = true
	for _, m := range w.hosts {
		w.start(m)
		for m.agent != nil && w.act(m) {
		}
	}
	w.noFailures = false
	return w
}
