package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// TestChooseAgreesWithExhaustiveSearch compares Choose with a search of all nodes for the cells and all devices for the
// requests of a server, so that an accepted candidate can be claimed.
func TestChooseAgreesWithExhaustiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 4))
	const cases = 4000
	fits := 0
	for n := range cases {
		h, a := randomCase(rng)
		reason, filter := a.judgeOn(h)
		want := someNodesFit(h, a, nil)
		if (reason == "") != want {
			t.Fatalf("case %d: refused %q at %s, exhaustive search: %v\nhost %+v\nquestion %+v", n, reason, filter, want, h, a)
		}
		if want {
			fits++
		}
	}
	if fits < cases/10 || fits > cases*9/10 {
		t.Errorf("%d of %d cases fit, want a tenth to nine tenths", fits, cases)
	}
}

// randomCase returns a random host and question.
func randomCase(rng *rand.Rand) (schedule.Host, question) {
	providers := []provider.ID{"p0", "p1", "p2"}
	var list []pci.Offered
	for bus := range 1 + rng.IntN(3) {
		list = append(list, card(uint8(bus), providers[rng.IntN(3)], rng.IntN(5)-1, rng.IntN(3) == 0, rng.IntN(3))...)
	}
	for i := range list {
		if rng.IntN(5) == 0 {
			list[i].LiveMigratable = pci.Yes
		}
	}
	var cells []numa.Cell
	for id := range 1 + rng.IntN(4) {
		cells = append(cells, node(id, rng.IntN(3)/2, rng.IntN(4)))
		if rng.IntN(8) == 0 {
			cells[id].Socket = numa.NoSocket
		}
	}
	h := withCells(host("h", list...), cells...)
	for i, n := range h.Nodes { // some are nodes of memory only: without CPUs, and with random distances
		if n.ID == 0 || rng.IntN(3) > 0 {
			continue
		}
		h.Nodes[i].CPUs, h.Nodes[i].Socket, h.Nodes[i].Distances = false, numa.NoSocket, map[int]int{}
		for _, to := range h.Nodes {
			h.Nodes[i].Distances[to.ID] = 20 + 10*rng.IntN(2)
		}
		h.Cells = slices.DeleteFunc(h.Cells, func(c numa.Cell) bool { return c.ID == n.ID })
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

// someNodesFit tries all nodes for the remaining cells.
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

// someDevicesFit tries all devices for the remaining requested devices.
func someDevicesFit(h schedule.Host, wants []pci.Request, on []provider.ID, nodes, chosen []int) bool {
	n := len(chosen)
	if n == len(wants) {
		return true
	}
	for i, d := range h.Devices {
		r := wants[n]
		fits := d.Type == r.Requirement.Type && d.Product == r.Requirement.Product && (on == nil || on[n] == d.Provider) &&
			(r.Requirement.LiveMigratable == "" || d.LiveMigratable == r.Requirement.LiveMigratable) &&
			nearEnough(h.Nodes, r.Policy, d.NUMANode, nodes)
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

// nearEnough reports whether a device on this node is near enough to a guest on these nodes, by the definition of each
// NUMA policy.
func nearEnough(host numa.Topology, p pci.NUMAPolicy, device int, nodes []int) bool {
	if len(nodes) == 0 || p == pci.Preferred {
		return true
	}
	var near []numa.Node // the nodes with CPUs that are nearest to the device
	sockets := true
	for _, n := range host {
		sockets = sockets && (!n.CPUs || n.Socket != numa.NoSocket)
		if n.ID == device && n.CPUs {
			near = []numa.Node{n}
		}
		for far := 0; n.ID == device && !n.CPUs && len(near) == 0; far++ {
			for _, o := range host {
				if o.CPUs && n.Distances[o.ID] == far {
					near = append(near, o)
				}
			}
		}
	}
	if p == pci.Legacy && len(near) == 0 {
		return true
	}
	for _, n := range near {
		for _, o := range host {
			if slices.Contains(nodes, o.ID) && (n.ID == o.ID || p == pci.Socket && sockets && n.Socket == o.Socket) {
				return true
			}
		}
	}
	return false
}

// TestFitAgreesWithExhaustiveSearch compares Choose with a search of all assignments of devices to slots.
func TestFitAgreesWithExhaustiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	products, providers := []string{nic, disk}, []provider.ID{"p0", "p1"}
	fits := 0
	for n := range 3000 {
		h := host("h")
		for i := range rng.IntN(5) {
			h.Devices = append(h.Devices, device(i, providers[rng.IntN(2)], products[rng.IntN(2)]))
		}
		c := schedule.Candidate{Root: "root-h", Mappings: map[string][]provider.ID{}}
		var requests []pci.Request
		for i := range 1 + rng.IntN(3) {
			r := pci.Request{ID: fmt.Sprint(i), Count: 1 + rng.IntN(2)}
			if rng.IntN(2) == 0 {
				r.Requirement.Product = products[rng.IntN(2)]
			}
			for k := range r.Count {
				c.Mappings[r.GroupSuffix(k)] = []provider.ID{providers[rng.IntN(2)]}
			}
			requests = append(requests, r)
		}
		choices, why := choose(schedule.Input{Hosts: hosts(h), Candidates: []schedule.Candidate{c}}, requests...)
		want := someAssignmentFits(h.Devices, requests, c.Mappings, 0, 0, map[int]bool{})
		if want {
			fits++
		}
		if (len(choices) == 1) != want {
			t.Fatalf("case %d: chosen %v (%s), exhaustive search: %v", n, len(choices) == 1, why, want)
		}
	}
	if fits < 300 || fits > 2700 {
		t.Errorf("%d of 3000 cases fit, want 300 to 2700", fits)
	}
}

// someAssignmentFits tries all devices for the remaining slots.
func someAssignmentFits(devices []pci.Offered, requests []pci.Request, m map[string][]provider.ID, r, i int,
	used map[int]bool) bool {
	if r == len(requests) {
		return true
	}
	if i == requests[r].Count {
		return someAssignmentFits(devices, requests, m, r+1, 0, used)
	}
	for n, d := range devices {
		if used[n] || d.Provider != m[requests[r].GroupSuffix(i)][0] || (requests[r].Requirement.Product != "" &&
			requests[r].Requirement.Product != d.Product) {
			continue
		}
		used[n] = true
		if someAssignmentFits(devices, requests, m, r, i+1, used) {
			return true
		}
		delete(used, n)
	}
	return false
}
