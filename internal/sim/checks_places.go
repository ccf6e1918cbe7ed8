package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/plan/plantest"
)

// checkPlaces: the guests of a machine have places that they may have together. The threads of dedicated CPUs are given
// once, each node has the memory, and the devices of each guest are near enough and agree.
func (ck *checks) checkPlaces(m *simHost) {
	t := ck.trueHost(m)
	for _, c := range t.room.Cells {
		slices.Sort(c.Pinned)
		small := c.MemoryMB
		for _, p := range c.Pages {
			if small -= p.Total * p.SizeKB / 1024; p.Used > p.Total {
				ck.violation(m, "placed: %d of %d pages of %d KiB of node %d are used", p.Used, p.Total, p.SizeKB, c.ID)
			}
		}
		switch {
		case len(slices.Compact(slices.Clone(c.Pinned))) != len(c.Pinned):
			ck.violation(m, "placed: of the threads %v of node %d some are given twice", c.Pinned, c.ID)
		case len(common(c.Pinned, c.Dedicated)) != len(c.Pinned):
			ck.violation(m, "placed: the threads %v are given, and node %d has %v for dedicated CPUs", c.Pinned, c.ID,
				c.Dedicated)
		case float64(c.Floating) > float64(len(c.CPUs))*max(t.room.Limits.CPU, 1):
			ck.violation(m, "placed: %d virtual CPUs share the threads %v of node %d", c.Floating, c.CPUs, c.ID)
		case float64(c.UsedMemory) > float64(small)*max(t.room.Limits.Memory, 1):
			ck.violation(m, "placed: %d of %d MiB of node %d are used", c.UsedMemory, small, c.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		for _, r := range ck.compute.servers[ck.ownerOf[id]].Residences() {
			if r.Host == m.name && r.Consumer == id && !ck.devicesFit(t, id, r.Requests) {
				ck.violation(m, "placed: the devices %v of the guest %s are too far from its nodes, or do not agree: %+v",
					addresses(*m.guests[id]), id, r.Requests)
			}
		}
	}
}

// devicesFit reports whether the devices of a guest are near enough to its nodes, and agree as its requests say.
func (ck *checks) devicesFit(t trueHost, id string, requests []pci.Request) bool {
	guest := t.machine.guests[id]
	requests = slices.DeleteFunc(slices.Clone(requests), func(r pci.Request) bool { return r.Port != nil })
	for i, r := range requests {
		if r.Match != nil { // which sets are whole may have changed since: other devices are offered now
			match := *r.Match
			match.Whole, requests[i].Match = false, &match
		}
	}
	var devices []trueDevice
	of := map[pci.Address]string{}
	for _, d := range guest.Devices {
		of[d.ID.Address()] = d.Request
	}
	for _, d := range t.offered {
		if of[d.Address] != "" {
			devices = append(devices, d)
		}
	}
	if len(devices) < plantest.WantedOf(guestOf(requests, nil)) {
		return true // some are not offered now: the configuration has changed
	}
	var nodes []int
	for _, c := range guest.Cells {
		nodes = append(nodes, c.Node)
	}
	slices.Sort(nodes)
	g := guestOf(requests, nil)
	g.Nodes = nodes
	list := t.forPlan(devices, requests, func(d trueDevice, r pci.Request) bool { return of[d.Address] == r.ID })
	return plantest.BruteForce{Host: plan.Host{Room: t.room, Devices: list}, Guest: g}.Fits()
}
