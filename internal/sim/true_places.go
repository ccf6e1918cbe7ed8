package sim

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/plan/plantest"
)

// wantedServer is what a server of a flavor needs of its host.
type wantedServer struct {
	flavor.Flavor
	requests []pci.Request
	cells    []numa.GuestCell
}

// wantedServer returns what a server of a flavor needs.
func (c *cloud) wantedServer(f flavor.Flavor) (wantedServer, error) {
	w, n := wantedServer{Flavor: f}, 0
	var err error
	if _, w.requests, err = flavor.Ask(f, flavor.Image{}, c.compute.aliases, flavor.Options{PCIInPlacement: true},
		func() string { n++; return fmt.Sprint(n) }); err != nil {
		return w, err
	}
	w.cells, err = flavor.Topology(f, flavor.Image{})
	return w, err
}

// placesFor returns the hosts of a zone on which a server fits, found by trying everything. possible are those on which
// it fits if the devices are free that are so by one of two clocks.
func (c *cloud) placesFor(w wantedServer, zone int) (certain, possible []string) {
	for _, m := range c.hosts {
		if m.zone != zone || m.agent == nil {
			continue
		}
		t := c.trueHost(m)
		if !t.hasPlace(w, true) {
			continue
		}
		if possible = append(possible, m.name); t.hasPlace(w, false) {
			certain = append(certain, m.name)
		}
	}
	return certain, possible
}

// hasPlace reports whether a server fits on the host. perhaps: with the devices that are free by one of two clocks.
func (t trueHost) hasPlace(w wantedServer, perhaps bool) bool {
	dedicated, threads := 0, numa.Threads("")
	for _, c := range w.cells {
		dedicated += len(c.Dedicated) + c.Emulator
		threads = c.Threads
	}
	shared := w.VCPUs
	for _, c := range w.cells {
		shared -= len(c.Dedicated)
	}
	const affinity = "hw:pci_numa_affinity_policy"
	switch {
	case !t.root["VCPU"].fits(shared), !t.root[numa.DedicatedCPUs].fits(dedicated),
		!t.root["MEMORY_MB"].fits(w.MemoryMB), !t.root["DISK_GB"].fits(w.DiskGB):
		return false
	case threads == numa.Require && !t.smt, threads == numa.Isolate && t.smt:
		return false // they require and forbid HW_CPU_HYPERTHREADING, as in Nova
	case w.ExtraSpecs[affinity] == string(pci.Socket) && len(w.cells) > 0 && len(w.requests) > 0 && !t.socket:
		return false // it requires COMPUTE_SOCKET_PCI_NUMA_AFFINITY, as in Nova
	}
	b := plantest.BruteForce{Host: plan.Host{Room: t.room}, Guest: guestOf(w.requests, w.cells)}
	free := slices.DeleteFunc(slices.Clone(t.offered), func(d trueDevice) bool { return !d.free && !(perhaps && d.maybe) })
	b.Host.Devices = t.forPlan(free, w.requests, func(d trueDevice, r pci.Request) bool { return d.serves(r) })
	return b.Fits()
}

// guestOf returns a guest for the brute force.
func guestOf(requests []pci.Request, cells []numa.GuestCell) plan.Guest {
	g := plan.Guest{Cells: cells}
	sets := map[int]int{}
	for i, r := range requests {
		g.Requests = append(g.Requests, plan.Request{Count: r.Count, Policy: r.Policy})
		if r.Match == nil {
			continue
		}
		n, known := sets[r.Match.Set]
		if !known {
			n = len(g.Sets)
			sets[r.Match.Set] = n
			g.Sets = append(g.Sets, plan.Set{Family: familyOf(r), Times: max(r.Match.Times, 1)})
		}
		g.Sets[n].Requests = append(g.Sets[n].Requests, i)
	}
	return g
}

// familyOf returns the family by which the brute force knows the values that the sets of a request may have.
func familyOf(r pci.Request) string { return fmt.Sprint(r.Match.Set, " ", r.Match.Family) }

// forPlan returns devices for the brute force. serves reports whether a device may be given to a request.
func (t trueHost) forPlan(devices []trueDevice, requests []pci.Request, serves func(trueDevice, pci.Request) bool) (
	list []plan.Device) {
	cards := map[pci.Address]int{}
	for _, d := range devices {
		near := t.machine.nearest(d.Device)
		to := plan.Device{Near: near, Beside: t.beside(near), Values: map[string][]string{}, Card: plan.NoCard}
		if d.Parent != nil || d.Type == pci.Physical {
			if _, known := cards[d.card()]; !known {
				cards[d.card()] = len(cards)
			}
			to.Card, to.Whole = cards[d.card()], d.Parent == nil
		}
		useful := false
		for _, r := range requests {
			fits := serves(d, r)
			to.Fits, useful = append(to.Fits, fits), useful || fits
			if r.Match != nil {
				to.Values[familyOf(r)] = t.valuesFor(d, r, requests)
			}
		}
		if useful {
			list = append(list, to)
		}
	}
	return list
}

// valuesFor returns the values of a device that the sets of a request may have. A set that is to be whole takes all
// devices that the host offers with its value.
func (t trueHost) valuesFor(d trueDevice, r pci.Request, requests []pci.Request) []string {
	values := d.valuesOf(r.Match.Family)
	if !r.Match.Whole {
		return values
	}
	size := 0
	for _, o := range requests {
		if o.Match != nil && o.Match.Set == r.Match.Set {
			size += o.Count / max(o.Match.Times, 1)
		}
	}
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool {
		with := 0
		for _, o := range t.offered {
			if slices.Contains(o.valuesOf(r.Match.Family), v) {
				with++
			}
		}
		return with != size
	})
}
