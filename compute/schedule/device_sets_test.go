package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// setCase is a host with devices, each on a provider of its own, and the requests of a server.
type setCase struct {
	host     schedule.Host
	requests []pci.Request
}

// randomSetCase returns up to eight devices of two products, some of them taken, below three roots and in partitions of
// two and four, and requests in up to two sets.
func randomSetCase(rng *rand.Rand) (c setCase) {
	c.host = host("h1")
	for n := range 3 + rng.IntN(6) {
		product := []string{"1515", "1516"}[rng.IntN(2)]
		d := testDevice(uint8(1+n), pci.Plain, product, provider.ID(fmt.Sprintf("p%d", n)), rng.IntN(2))
		d.Bridges = []pci.Address{{Bus: 0x80, Slot: uint8(rng.IntN(3))}}
		d.ResourceClass = "CUSTOM_CARD" // of all alternatives of an alias
		if rng.IntN(4) > 0 {
			d.Properties = pci.Properties{"fabric": {fmt.Sprintf("p2-%d", n/2), fmt.Sprintf("p4-%d", n/4)}}
		}
		if rng.IntN(5) == 0 {
			d.State = pci.Allocated
		}
		c.host.Devices = append(c.host.Devices, d)
	}
	left := 5
	add := func(count int, match *pci.Match) {
		if left -= count; left >= 0 {
			r := requestFor(count, pci.Plain, []string{"1515", "1516"}[rng.IntN(2)])
			r.Requirement.Class = "CUSTOM_CARD"
			if r.ID, r.Match = fmt.Sprintf("R%d", len(c.requests)), match; rng.IntN(3) == 0 {
				r.Alternatives = []pci.Requirement{requestFor(1, pci.Plain, "1516").Requirement}
			}
			c.requests = append(c.requests, r)
		}
	}
	for set := range 1 + rng.IntN(2) {
		m := pci.Match{Set: 1 + set, Family: []string{pci.RootFamily, "fabric", pci.NodeFamily}[rng.IntN(3)],
			Times: 1 + rng.IntN(4)/2}
		m.Whole = m.Family == "fabric" && rng.IntN(2) == 0
		for range 1 + rng.IntN(2) {
			add(m.Times*(1+rng.IntN(2)), &m)
		}
	}
	if rng.IntN(2) == 0 {
		add(1, nil)
	}
	return c
}

// fits tries all ways to give the slots from n on a device. used has the devices of the slots before.
func (c setCase) fits(slots []*pci.Request, used []int) bool {
	if len(used) == len(slots) {
		return c.wrong(used) == ""
	}
	for i, d := range c.host.Devices {
		if d.State == pci.Available && !slices.Contains(used, i) && slots[len(used)].WhyNot(d.Device, "") == "" &&
			c.fits(slots, append(slices.Clone(used), i)) {
			return true
		}
	}
	return false
}

// slots returns the request of each slot.
func (c setCase) slots() (list []*pci.Request) {
	for r := range c.requests {
		for range c.requests[r].Count {
			list = append(list, &c.requests[r])
		}
	}
	return list
}

// wrong returns which set of devices does not belong together, or "". The devices of a request are in the order of its
// sets.
func (c setCase) wrong(devices []int) string {
	sets, size := map[string][]pci.Offered{}, map[*pci.Request]int{}
	family := map[string]*pci.Match{}
	for i, r := range c.slots() {
		if m := r.Match; m != nil {
			name := fmt.Sprint("set ", m.Set, " number ", size[r]/(r.Count/m.Times))
			sets[name], family[name] = append(sets[name], c.host.Devices[devices[i]]), m
		}
		size[r]++
	}
	for name, members := range sets {
		agrees := false
		for _, v := range members[0].Values(family[name].Family) {
			has := func(d pci.Offered) bool { return slices.Contains(d.Values(family[name].Family), v) }
			offered := 0
			for _, d := range c.host.Devices {
				if has(d) {
					offered++
				}
			}
			agrees = agrees || !slices.ContainsFunc(members, func(d pci.Offered) bool { return !has(d) }) &&
				(!family[name].Whole || offered == len(members))
		}
		if !agrees {
			return name
		}
	}
	return ""
}

// TestSetsAgreeWithTryingEverything compares plans for servers whose devices belong together with a search that tries
// all ways to choose the devices.
func TestSetsAgreeWithTryingEverything(t *testing.T) {
	placed, refused := 0, 0
	for seed := range uint64(3000) {
		c := randomSetCase(rand.New(rand.NewPCG(seed, 7)))
		known := schedule.Input{Hosts: hosts(memories{}.remember(c.host)), Now: noon}
		var without []pci.Request
		for _, r := range c.requests {
			r.Match = nil
			without = append(without, r)
		}
		schedule.PlanHosts(known, without, 1) // its answer is remembered
		roots, _, refusals := schedule.PlanHosts(known, c.requests, 1)
		if want := c.fits(c.slots(), nil); want != (len(roots) == 1) {
			t.Fatalf("case %d: fits: %t, planned on %v, refused %+v\n%+v", seed, want, roots, refusals, c)
		}
		if len(roots) == 0 {
			refused++
			continue
		}
		placed++
		if wrong := c.wrong(c.chosen(t, roots[0])); wrong != "" {
			t.Fatalf("case %d: %s does not belong together\n%+v", seed, wrong, c)
		}
	}
	if placed < 500 || refused < 500 {
		t.Errorf("%d servers fit, %d do not: the cases are too similar", placed, refused)
	}
}

// chosen returns the devices of the choice on a host, by slot.
func (c setCase) chosen(t *testing.T, root provider.ID) (devices []int) {
	t.Helper()
	counted, tree := map[string]bool{}, schedule.Tree{Free: resource.Allocation{}}
	for _, r := range c.requests {
		counted[r.ID] = true
	}
	for _, d := range c.host.Devices {
		tree.Free[d.Provider] = resource.Amounts{d.ResourceClass: 1}
	}
	choice, _, refusal := schedule.PlanOn(schedule.Input{Hosts: hosts(c.host), Now: noon, Counted: counted,
		Candidates: []schedule.Candidate{candidate("h1")}}, root, c.requests, tree)
	if refusal.Reason != "" {
		t.Fatal(refusal)
	}
	for _, r := range c.requests {
		for i := range r.Count {
			on := choice.Mappings[r.GroupSuffix(i)][0]
			devices = append(devices, slices.IndexFunc(c.host.Devices, func(d pci.Offered) bool { return d.Provider == on }))
		}
	}
	return devices
}

// fabricHost returns a host of eight GPUs whose partitions are p8-0, p4-0 and so on, without the partitions of one.
// held are the GPUs that guests have.
func fabricHost(held ...int) schedule.Host {
	h := host("h1")
	for n := range 8 {
		d := testDevice(uint8(1+n), pci.Plain, "2330", provider.ID(fmt.Sprintf("gpu%d", n)), 0)
		d.Properties = pci.Properties{"fabric": {fmt.Sprintf("p2-%d", n/2), fmt.Sprintf("p4-%d", n/4), "p8-0"}}
		if slices.Contains(held, n) {
			d.State = pci.Allocated
		}
		h.Devices = append(h.Devices, d)
	}
	return h
}

// A whole set takes a partition of exactly its size that is free, and of these one that breaks no larger one.
func TestPartitions(t *testing.T) {
	for _, test := range []struct {
		held  []int
		count int
		want  string // the GPUs, or the reason
	}{
		{nil, 4, "0 1 2 3"},
		{[]int{1}, 4, "4 5 6 7"},
		{[]int{1}, 2, "2 3"},
		{[]int{6, 7}, 2, "4 5"},
		{[]int{1, 7}, 4, "no fabric of exactly 4 devices is free; of p4-0 3 of 4 are free"},
		{nil, 3, "no fabric of exactly 3 devices is free; no fabric has exactly 3 devices"},
		{nil, 8, "0 1 2 3 4 5 6 7"},
		{[]int{0}, 8, "fewer than 8 free type-PCI 8086:2330 on the host; it has 7"},
	} {
		c := setCase{host: fabricHost(test.held...), requests: []pci.Request{requestFor(test.count, pci.Plain, "2330")}}
		c.requests[0].ID, c.requests[0].Match = "R", &pci.Match{Set: 1, Family: "fabric", Times: 1, Whole: true}
		roots, _, refusals := schedule.PlanHosts(schedule.Input{Hosts: hosts(c.host), Now: noon}, c.requests, 1)
		got := ""
		if len(roots) > 0 {
			list := c.chosen(t, roots[0])
			slices.Sort(list)
			got = strings.Trim(fmt.Sprint(list), "[]")
		} else {
			got = refusals[0].Reason + "; " + refusals[0].Nearest
		}
		if got != test.want && !strings.HasPrefix(got, test.want+";") {
			t.Errorf("%d of GPUs without %v: %s; want %s", test.count, test.held, got, test.want)
		}
	}
}

// Servers use the hosts whose partitions are broken already first, whatever their load, so that large ones stay whole.
func TestPartitionsOfOtherHosts(t *testing.T) {
	for seed := range uint64(10) {
		broken, whole := fabricHost(1), fabricHost()
		broken.Load, whole.Name, whole.Provider = 0.9, "h2", "root-h2"
		r := requestFor(4, pci.Plain, "2330")
		r.Match = &pci.Match{Set: 1, Family: "fabric", Times: 1, Whole: true}
		roots, _, _ := schedule.PlanHosts(schedule.Input{Hosts: hosts(broken, whole), Now: noon}, []pci.Request{r}, seed)
		if len(roots) != 2 || roots[0] != "root-h1" {
			t.Errorf("four GPUs are planned on %v", roots)
		}
	}
}
