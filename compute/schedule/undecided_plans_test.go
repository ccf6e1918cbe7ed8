package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// hardCase is a host with different numbers of devices on each node, and a server with a cell for every second node and
// as many sets as given of two devices of one node. Whether it fits takes long to find out.
func hardCase(name string, nodes int, seed uint64, sets int) (schedule.Host, schedule.Input, []pci.Request) {
	rng, h := rand.New(rand.NewPCG(seed, 1)), host(name)
	for n := range nodes {
		for kind, product := range []string{"1", "2", "3"} {
			for i := range rng.IntN(6) {
				on := provider.ID(fmt.Sprint(name, n, kind, i))
				d := testDevice(uint8(n), pci.Plain, product, on, n)
				d.Address.Slot, d.Address.Func = uint8(i), uint8(kind)
				d.Properties = pci.Properties{"board": {fmt.Sprint(n)}}
				h.Devices = append(h.Devices, d)
			}
		}
		h.Cells = append(h.Cells, node(n, n/2, 8))
	}
	h = withCells(h, h.Cells...)
	requests := []pci.Request{requestFor(sets, pci.Plain, "1"), requestFor(sets, pci.Plain, "2"),
		requestFor(sets, pci.Plain, "3")}
	p := schedule.Input{Hosts: hosts(h), Now: noon, Cells: guest(nodes / 2), Counted: map[string]bool{}}
	for i := range requests {
		requests[i].ID = string(rune('R' + i))
		p.Counted[requests[i].ID] = true
		if i < 2 {
			requests[i].Match = &pci.Match{Set: 1, Family: "board", Times: sets}
		}
	}
	return h, p, requests
}

// Whether the server fits on the host is not decided by a short search. A longer one decides it, or says that it is not
// decided.
func TestLongSearchesAreDecidedLater(t *testing.T) {
	for _, c := range []struct {
		name        string
		nodes, sets int
		seed        uint64
		fits        bool
	}{
		{"it fits", 12, 16, 9, true},
		{"it takes hours", 20, 20, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, p, requests := hardCase("h1", c.nodes, c.seed, c.sets)
			small := host("h2")
			p.Hosts[small.Provider] = small
			roots, _, refusals := schedule.PlanHosts(p, requests, 1)
			if len(roots) != 0 || len(refusals) != 2 || schedule.Undecided(refusals) != 1 {
				t.Fatalf("planned on %v; %+v", roots, refusals)
			}
			var root provider.ID
			rest := schedule.PlanLonger(p, requests, refusals, func(on provider.ID) bool {
				root = on
				return true
			})
			if fits := root == h.Provider; fits != c.fits || schedule.Undecided(rest) == 1 == fits ||
				!strings.Contains(schedule.Summarise(rest), "not decided") == !fits {
				t.Errorf("planned on %q; %s", root, schedule.Summarise(rest))
			}
		})
	}
}

// A search that is decided on another host is not continued, and the work of all calls for a count is limited.
func TestWorkIsLimited(t *testing.T) {
	h, p, requests := hardCase("h1", 20, 1, 20)
	easy := h
	easy.Name, easy.Provider, easy.Devices = "h2", "root-h2", nil
	for n := range 20 {
		for kind, product := range []string{"1", "2", "3"} {
			for i := range 4 {
				d := testDevice(uint8(n), pci.Plain, product, provider.ID(fmt.Sprint("e", n, kind, i)), n)
				d.Address.Slot, d.Address.Func = uint8(i), uint8(kind)
				d.Properties = pci.Properties{"board": {fmt.Sprint(n)}}
				easy.Devices = append(easy.Devices, d)
			}
		}
	}
	p.Hosts[easy.Provider] = easy
	if roots, _, refusals := schedule.PlanHosts(p, requests, 1); len(roots) != 1 || schedule.Undecided(refusals) != 1 {
		t.Errorf("planned on %v; %+v", roots, refusals)
	}
	work := 1
	p.Work, p.Candidates = &work, []schedule.Candidate{candidate("h1")}
	tree := schedule.Tree{Free: resource.Allocation{}}
	for _, d := range h.Devices {
		tree.Free[d.Provider] = resource.Amounts{d.ResourceClass: 1}
	}
	if _, _, refused := schedule.PlanOn(p, h.Provider, requests, tree); !refused.Undecided || work >= 0 {
		t.Errorf("%+v; %d is left", refused, work)
	}
}
