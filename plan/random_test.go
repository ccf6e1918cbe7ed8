package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/plan/plantest"
)

// The families of values in random cases: of fabric a device can have several values.
const (
	root   = "pcie_root"
	fabric = "fabric"
)

// randomCase returns a small host and a guest.
func randomCase(rng *rand.Rand) (plan.Host, plan.Guest) {
	g := randomGuest(rng)
	h := plan.Host{Room: randomRoom(rng)}
	if len(h.Room.Cells) > 0 && rng.IntN(6) == 0 { // placed already
		for _, n := range rng.Perm(len(h.Room.Cells))[:1+rng.IntN(len(h.Room.Cells))] {
			g.Nodes = append(g.Nodes, h.Room.Cells[n].ID)
		}
		slices.Sort(g.Nodes)
	}
	h.Devices = randomDevices(rng, h.Room.Cells, g)
	return h, g
}

// randomRoom returns up to four nodes. Their numbers need not begin with 0.
func randomRoom(rng *rand.Rand) numa.Host {
	h := numa.Host{Pack: rng.IntN(2) == 0, Free: map[int]int{rng.IntN(4): rng.IntN(3)}}
	sockets, first := rng.IntN(3), rng.IntN(2)
	for id := range []int{0, 1, 2, 2, 3, 3, 4, 4}[rng.IntN(8)] {
		c := numa.Cell{ID: first + id, MemoryMB: 1024, Socket: id / 2}
		if sockets == 0 {
			c.Socket = numa.NoSocket
		}
		for i := range 2 + rng.IntN(3) {
			c.Dedicated = append(c.Dedicated, id*10+i)
			if rng.IntN(4) == 0 {
				c.Pinned = append(c.Pinned, id*10+i)
			}
		}
		c.UsedMemory = 128 * rng.IntN(5)
		if rng.IntN(3) == 0 {
			c.CPUs = []int{id*10 + 6, id*10 + 7}
			c.Floating = rng.IntN(4)
		}
		if rng.IntN(3) == 0 {
			c.Pages = []numa.Pages{{SizeKB: 2048, Total: 256, Used: 64 * rng.IntN(5)}}
		}
		if rng.IntN(3) == 0 { // cores of two threads
			for i := 0; i+1 < len(c.Dedicated); i += 2 {
				c.Siblings = append(c.Siblings, c.Dedicated[i:i+2])
			}
		}
		h.Cells = append(h.Cells, c)
	}
	return h
}

// randomDevices returns up to ten devices, rarely up to 17. Each is made from one of a few models, so some are equal.
func randomDevices(rng *rand.Rand, cells []numa.Cell, g plan.Guest) (list []plan.Device) {
	var models []plan.Device
	for range 1 + rng.IntN(4) {
		models = append(models, randomModel(rng, cells, len(g.Requests)))
	}
	if rng.IntN(3) == 0 || plantest.WantedOf(g) > 6 { // all requests compete
		for _, m := range models {
			for r := range m.Fits {
				m.Fits[r] = true
			}
		}
	}
	later, cards := rng.IntN(3) == 0, 0
	count := 2 + rng.IntN(8)
	if rng.IntN(50) == 0 || plantest.WantedOf(g) > 6 {
		count = 16
	}
	for len(list) < count {
		d := models[rng.IntN(len(models))]
		if rng.IntN(2) == 0 {
			d.Near = randomNear(rng, cells)
		}
		d.Beside = beside(d.Near, cells)
		if rng.IntN(3) == 0 {
			d.Values = randomValues(rng)
		}
		if later {
			d.Later = rng.IntN(3)
		}
		if cards == 4 || rng.IntN(4) > 0 {
			list = append(list, d)
			continue
		}
		whole := d
		whole.Fits = randomFits(rng, len(g.Requests))
		d.Card, whole.Card, whole.Whole = cards, cards, true
		cards++
		list = append(list, whole)
		for range 1 + rng.IntN(2) {
			list = append(list, d)
		}
	}
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// randomModel returns a device that serves some of the requests.
func randomModel(rng *rand.Rand, cells []numa.Cell, requests int) plan.Device {
	return plan.Device{Fits: randomFits(rng, requests), Near: randomNear(rng, cells), Values: randomValues(rng),
		Card: plan.NoCard}
}

func randomFits(rng *rand.Rand, requests int) []bool {
	fits := make([]bool, requests)
	for r := range fits {
		fits[r] = rng.IntN(2) == 0
	}
	return fits
}

// randomNear returns the nearest nodes of a device: mostly one, sometimes two or none.
func randomNear(rng *rand.Rand, cells []numa.Cell) (near []int) {
	if len(cells) == 0 || rng.IntN(6) == 0 {
		return nil
	}
	for _, n := range rng.Perm(len(cells))[:min(len(cells), 1+rng.IntN(5)/4)] {
		near = append(near, cells[n].ID)
	}
	slices.Sort(near)
	return near
}

// beside returns the nodes on the sockets of near, or nil if some socket is unknown.
func beside(near []int, cells []numa.Cell) (list []int) {
	for _, c := range cells {
		if c.Socket == numa.NoSocket {
			return nil
		}
		if slices.ContainsFunc(cells, func(o numa.Cell) bool {
			return slices.Contains(near, o.ID) && o.Socket == c.Socket
		}) {
			list = append(list, c.ID)
		}
	}
	return list
}

func randomValues(rng *rand.Rand) map[string][]string {
	values := map[string][]string{}
	if rng.IntN(8) > 0 {
		values[root] = []string{fmt.Sprint("r", rng.IntN(3))}
	}
	for _, v := range []string{"p2-0", "p2-1", "p4-0", "p8-0"} {
		if rng.IntN(2) == 0 {
			values[fabric] = append(values[fabric], v)
		}
	}
	return values
}

// randomGuest returns a guest with up to four cells and up to six devices; rarely up to 16 of up to four kinds.
func randomGuest(rng *rand.Rand) (g plan.Guest) {
	for range []int{0, 1, 1, 2, 2, 3, 4}[rng.IntN(7)] {
		g.Cells = append(g.Cells, randomGuestCell(rng))
	}
	policies := []pci.NUMAPolicy{"", pci.Legacy, pci.Required, pci.Preferred, pci.Preferred, pci.Socket, pci.Socket}
	left, kinds, counts := 6, 3, []int{1, 1, 2, 2, 3}
	if rng.IntN(100) == 0 {
		left, kinds, counts = 16, 4, []int{2, 3, 4, 5, 6}
	}
	add := func(times int) bool {
		count := times * counts[rng.IntN(5)]
		if left < count || len(g.Requests) == kinds {
			return false
		}
		left -= count
		g.Requests = append(g.Requests, plan.Request{Count: count, Policy: policies[rng.IntN(len(policies))]})
		return true
	}
	for range []int{0, 0, 1, 1, 2, 2}[rng.IntN(6)] {
		s := plan.Set{Family: []string{root, root, fabric}[rng.IntN(3)], Times: []int{0, 1, 1, 2, 3}[rng.IntN(5)]}
		for range 1 + rng.IntN(5)/3 {
			if add(max(s.Times, 1)) {
				s.Requests = append(s.Requests, len(g.Requests)-1)
			}
		}
		if len(s.Requests) > 0 {
			g.Sets = append(g.Sets, s)
		}
	}
	for range rng.IntN(kinds) {
		add(1)
	}
	return g
}

// randomGuestCell returns a cell of dedicated, or rarely of shared CPUs, with small or huge pages.
func randomGuestCell(rng *rand.Rand) numa.GuestCell {
	c := numa.GuestCell{MemoryMB: 256 * (1 + rng.IntN(3))}
	for v := range 1 + rng.IntN(2) {
		c.VCPUs = append(c.VCPUs, v)
	}
	if rng.IntN(6) > 0 {
		c.Dedicated = c.VCPUs
		c.Threads = []numa.Threads{"", numa.Prefer, numa.Isolate, numa.Require}[rng.IntN(4)]
	}
	if rng.IntN(6) == 0 {
		c.MemoryMB, c.PageKB = 128*(1+rng.IntN(2)), 2048
	}
	return c
}
