package schedule_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// The stupid twin of the whole judgement: a server fits exactly when some nodes for its cells and some devices for its
// requests, tried one by one, obey all rules. 8.1/9: what is accepted can be claimed.
func TestChooseAgreesWithExhaustiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 4))
	const cases = 4000
	fits := 0
	for n := range cases {
		h, a := randomCase(rng)
		reason, step := a.judgeOn(h)
		want := someNodesFit(h, a, nil)
		if (reason == "") != want {
			t.Fatalf("case %d: refused %q at %s, trying everything says %v\nhost %+v\nask %+v", n, reason, step, want, h, a)
		}
		if want {
			fits++
		}
	}
	if fits < cases/10 || fits > cases*9/10 {
		t.Errorf("%d of %d cases fit: the cases show nothing", fits, cases)
	}
}

func randomCase(rng *rand.Rand) (schedule.Host, question) {
	providers := []provider.ID{"p0", "p1", "p2"}
	var list []schedule.Device
	for bus := range 1 + rng.IntN(3) {
		list = append(list, card(uint8(bus), providers[rng.IntN(3)], rng.IntN(5)-1, rng.IntN(3) == 0, rng.IntN(3))...)
	}
	for i := range list {
		if rng.IntN(5) == 0 {
			list[i].LiveMigratable = pci.Yes
		}
	}
	h := host("h", list...)
	for id := range 1 + rng.IntN(4) {
		h.Cells = append(h.Cells, node(id, rng.IntN(3)/2, rng.IntN(4)))
		if rng.IntN(8) == 0 {
			h.Cells[id].Socket = numa.NoSocket
		}
	}
	a := question{cells: guest(rng.IntN(3))}
	policies := []pci.NUMAPolicy{pci.Required, pci.Legacy, pci.Preferred, pci.Socket}
	devices := 0
	for range 1 + rng.IntN(2) {
		r := requestFor(1+rng.IntN(2), pci.Virtual, "1515")
		if rng.IntN(4) == 0 {
			r = requestFor(1, pci.Physical, "1528")
		}
		if rng.IntN(5) == 0 {
			r.Requirement.LiveMigratable = pci.Yes
		}
		a.requests = append(a.requests, withPolicy(policies[rng.IntN(4)], r))
		devices += r.Count
	}
	if rng.IntN(2) == 0 {
		for range devices {
			a.on = append(a.on, providers[rng.IntN(3)])
		}
	}
	return h, a
}

func someNodesFit(h schedule.Host, a question, nodes []int) bool {
	if len(nodes) == len(a.cells) {
		var wants []pci.Request
		for _, r := range a.requests {
			for range r.Count {
				wants = append(wants, r)
			}
		}
		return someDevicesFit(h, wants, a.on, nodes, nil)
	}
	for _, c := range h.Cells {
		if !slices.Contains(nodes, c.ID) && len(c.Dedicated) >= 2 && someNodesFit(h, a, append(slices.Clone(nodes), c.ID)) {
			return true
		}
	}
	return false
}

func someDevicesFit(h schedule.Host, wants []pci.Request, on []provider.ID, nodes, chosen []int) bool {
	n := len(chosen)
	if n == len(wants) {
		return true
	}
	for i, d := range h.Devices {
		r := wants[n]
		fits := d.Type == r.Requirement.Type && d.Product == r.Requirement.Product && (on == nil || on[n] == d.Provider) &&
			(r.Requirement.LiveMigratable == "" || d.LiveMigratable == r.Requirement.LiveMigratable) &&
			nearEnough(h.Cells, r.Policy,
				d.NUMANode, nodes)
		for _, other := range chosen {
			o := h.Devices[other]
			related := d.Parent != nil && *d.Parent == o.Address || o.Parent != nil && *o.Parent == d.Address
			fits = fits && other != i && !related
		}
		if fits && someDevicesFit(h, wants, on, nodes, append(slices.Clone(chosen), i)) {
			return true
		}
	}
	return false
}

// nearEnough is the definition of the NUMA policies, implemented by trying everything.
func nearEnough(cells []numa.Cell, p pci.NUMAPolicy, device int, nodes []int) bool {
	if len(nodes) == 0 || slices.Contains(nodes, device) || p == pci.Preferred {
		return true
	}
	if p == pci.Legacy {
		return device == pci.NoNUMA
	}
	if p != pci.Socket || slices.ContainsFunc(cells, func(c numa.Cell) bool { return c.Socket == numa.NoSocket }) {
		return false
	}
	for _, c := range cells {
		for _, o := range cells {
			if c.ID == device && slices.Contains(nodes, o.ID) && c.Socket == o.Socket {
				return true
			}
		}
	}
	return false
}
