package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// isolatedCase is a host of cards, each on a provider of its own, and what a server needs of it. Another group of the
// server has the provider busy.
type isolatedCase struct {
	host schedule.Host
	question
	busy provider.ID
}

func randomIsolatedCase(rng *rand.Rand) (c isolatedCase) {
	var list []pci.Offered
	for bus := range 1 + rng.IntN(4) {
		list = append(list, card(uint8(bus), provider.ID(fmt.Sprint("p", bus)), rng.IntN(3)-1, rng.IntN(3) == 0,
			1+rng.IntN(3))...)
	}
	for i := range list {
		if rng.IntN(3) == 0 {
			list[i].LiveMigratable = pci.Yes
		}
		if rng.IntN(6) == 0 {
			list[i].State = pci.Allocated
		}
	}
	var cells []numa.Cell
	for id := range 2 {
		cells = append(cells, node(id, id, 2*rng.IntN(2)))
	}
	list = slices.DeleteFunc(list, func(d pci.Offered) bool { return d.State != pci.Available })
	c.host = withCells(host("h1", list...), cells...)
	c.cells = guest(rng.IntN(3) / 2)
	for n := range 1 + rng.IntN(2) {
		r := requestFor(1+rng.IntN(2), pci.Virtual, "1515")
		if rng.IntN(4) == 0 {
			r = requestFor(1, pci.Physical, "1528")
		} else if rng.IntN(2) == 0 {
			r = migratable(r)
		}
		r.ID = string(rune('R' + n))
		c.requests = append(c.requests, withPolicy([]pci.NUMAPolicy{pci.Required, pci.Legacy, pci.Preferred}[rng.IntN(3)], r))
	}
	if rng.IntN(3) == 0 {
		c.busy = "p0"
	}
	return c
}

// fits tries all ways to give the requested devices from different providers.
func (c isolatedCase) fits(on []provider.ID) bool {
	wanted := 0
	for _, r := range c.requests {
		wanted += r.Count
	}
	if len(on) == wanted {
		c.on = on
		return someNodesFit(c.host, c.question, nil)
	}
	for n := range 4 {
		p := provider.ID(fmt.Sprint("p", n))
		if p != c.busy && !slices.Contains(on, p) && c.fits(append(slices.Clone(on), p)) {
			return true
		}
	}
	return false
}

// plan plans the server on the host, and returns the host with it.
func (c isolatedCase) plan() (schedule.Choice, schedule.Host, schedule.Refusal) {
	p := schedule.Input{Hosts: hosts(c.host), Now: noon, Cells: c.cells, Counted: map[string]bool{}, Isolate: true,
		Candidates: []schedule.Candidate{candidate("h1")}}
	if c.busy != "" {
		p.Candidates[0].Mappings["1"] = []provider.ID{c.busy}
	}
	tree := schedule.Tree{Free: resource.Allocation{}}
	for _, d := range c.host.Devices {
		if tree.Free[d.Provider] == nil {
			tree.Free[d.Provider] = resource.Amounts{}
		}
		tree.Free[d.Provider][d.ResourceClass]++
	}
	for _, r := range c.requests {
		p.Counted[r.ID] = true
	}
	return schedule.PlanOn(p, c.host.Provider, c.requests, tree)
}

// took reports whether the host has a device of a provider less that can serve a request.
func (c isolatedCase) took(after schedule.Host, on provider.ID, r pci.Request) bool {
	return slices.ContainsFunc(c.host.Devices, func(d pci.Offered) bool {
		return d.Provider == on && r.WhyNot(d.Device, d.LiveMigratable) == "" &&
			!slices.ContainsFunc(after.Free(), func(f pci.Offered) bool { return f.Address == d.Address })
	})
}

// With group_policy=isolate a server is planned if and only if its devices can be on different providers, and on none
// of another group.
func TestIsolateAgreesWithExhaustiveSearch(t *testing.T) {
	placed, refused := 0, 0
	for seed := range uint64(4000) {
		c := randomIsolatedCase(rand.New(rand.NewPCG(seed, 5)))
		choice, after, refusal := c.plan()
		if want := c.fits(nil); want != (refusal.Reason == "") {
			t.Fatalf("case %d: fits %t, refused %+v\n%+v", seed, want, refusal, c)
		}
		if refusal.Reason != "" {
			refused++
			continue
		}
		placed++
		used := map[provider.ID]bool{c.busy: true}
		for _, r := range c.requests {
			for i := range r.Count {
				on := choice.Mappings[r.GroupSuffix(i)][0]
				if used[on] || choice.Allocation[on][r.Requirement.Class] != 1 {
					t.Fatalf("case %d: %s is used twice: %+v\n%+v", seed, on, choice, c)
				}
				used[on] = true
				if !c.took(after, on, r) {
					t.Fatalf("case %d: another device of %s is taken\n%+v", seed, on, c)
				}
			}
		}
	}
	if placed < 500 || refused < 500 {
		t.Errorf("%d servers fit, %d do not: the cases are too similar", placed, refused)
	}
}

// VFs of cards that are not free as a whole come first, as without isolate.
func TestIsolatedVFsOfCardsInUse(t *testing.T) {
	vf := requestFor(1, pci.Virtual, "1515")
	vf.ID = "R"
	c := isolatedCase{host: host("h1", append(card(1, "p0", 0, true, 2), card(2, "p1", 0, false, 2)...)...),
		question: question{requests: []pci.Request{vf}}}
	choice, _, refusal := c.plan()
	if on := choice.Mappings["R-0"]; refusal.Reason != "" || !slices.Equal(on, []provider.ID{"p1"}) {
		t.Errorf("on %v, %+v", on, refusal)
	}
}

// The refusal says that providers are lacking, not devices.
func TestRefusalOfIsolate(t *testing.T) {
	c := isolatedCase{host: host("h1", card(1, "p0", 0, false, 8)...),
		question: question{requests: []pci.Request{requestFor(2, pci.Virtual, "1515")}}}
	_, _, refusal := c.plan()
	if !strings.Contains(refusal.Reason, "fewer than 2 free") ||
		!strings.Contains(refusal.Reason, "on providers of their own (group_policy isolate)") ||
		refusal.Nearest != "it has 1" || refusal.Shortage != (schedule.Shortage{Asks: 2, Free: 1, Of: 1}) {
		t.Errorf("%+v", refusal)
	}
}
