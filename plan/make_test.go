package plan_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/plan/plantest"
)

var (
	firstCase = flag.Uint64("plan.case", 0, "the first random case")
	cases     = flag.Int("plan.cases", 15000, "number of random cases")
	lasts     = flag.Duration("plan.for", 0, "how long random cases are tried; 0: plan.cases cases")
)

// eachCase calls f with the random numbers of each case until one fails.
func eachCase(t *testing.T, cases int, f func(rng *rand.Rand) error) {
	t.Helper()
	began := time.Now()
	for n := 0; *lasts == 0 && n < cases || *lasts > 0 && time.Since(began) < *lasts; n++ {
		seed := *firstCase + uint64(n)
		if err := f(rand.New(rand.NewPCG(seed, 25))); err != nil {
			t.Fatalf("case %d (-plan.case=%d -plan.cases=1): %v", n, seed, err)
		}
	}
}

// TestMakeAgreesWithTryingEverything compares Make with a search that tries all orders of nodes and all single devices.
func TestMakeAgreesWithTryingEverything(t *testing.T) {
	fits, refused, total, many := 0, 0, 0, 0
	eachCase(t, *cases, func(rng *rand.Rand) error {
		h, g := randomCase(rng)
		p, refusal := plan.Make(h, g)
		if total++; refusal == nil {
			fits++
			if plantest.WantedOf(g) > 6 {
				many++
			}
		} else if refusal.Cells.Reason == "" {
			refused++
		}
		if wrong := compare(h, g, p, refusal); wrong != "" {
			return fmt.Errorf("%s\nhost %+v\nguest %+v\nplan %+v\nrefusal %+v", wrong, h, g, p, refusal)
		}
		return nil
	})
	t.Logf("%d cases: %d fit, %d with 7 to 16 devices, %d lack devices", total, fits, many, refused)
	if least := total * 15 / 100; *firstCase == 0 && (fits < least || refused < least || many < total/2000) {
		t.Errorf("%d of %d cases fit, %d lack devices: the cases are too similar", fits, total, refused)
	}
}

// TestBruteForcesAgree compares the two searches that try everything.
func TestBruteForcesAgree(t *testing.T) {
	eachCase(t, *cases/10, func(rng *rand.Rand) error {
		h, g := randomCase(rng)
		b := bruteForce(h, g)
		if b.Wanted() > 6 {
			return nil
		}
		for _, nodes := range append(b.NodeSets(), nil) {
			few, is := b.BestOfFew(nodes)
			many, also := b.BestOfMany(nodes)
			if is != also || few != many {
				return fmt.Errorf("%+v %v, %+v %v on %v: host %+v guest %+v", few, is, many, also, nodes, h, g)
			}
		}
		return nil
	})
}

// bruteForce returns the search that tries everything, with the nodes in the order in which Make tries them.
func bruteForce(h plan.Host, g plan.Guest) plantest.BruteForce {
	if len(g.Cells) > 0 {
		h.Room.Cells, _, _ = numa.Options(h.Room, g.Cells, plantest.WantedOf(g) > 0)
	}
	return plantest.BruteForce{Host: h, Guest: g}
}

// compare returns what is wrong with the answer of Make, or "".
func compare(h plan.Host, g plan.Guest, p plan.Plan, refusal *plan.Refusal) string {
	b := bruteForce(h, g)
	sets := b.NodeSets()
	var best plantest.Quality
	var nodes []int
	found := false
	for _, set := range sets {
		if q, is := b.Best(set); is && (!found || q.Better(best)) {
			best, nodes, found = q, set, true
		}
	}
	switch {
	case refusal != nil && found:
		return fmt.Sprintf("refused, but fits on nodes %v with %+v", nodes, best)
	case refusal != nil:
		return wrongRefusal(b, sets, *refusal)
	case !found:
		return "a plan, but trying everything finds none"
	}
	at, wrong := nodesOf(h, g, p)
	if wrong != "" {
		return wrong
	}
	got, far, wrong := valid(h, g, p, at)
	switch {
	case wrong != "":
		return wrong
	case got != best || !slices.Equal(at, nodes):
		return fmt.Sprintf("%+v on nodes %v, the first best is %+v on nodes %v", got, at, best, nodes)
	case got.Later != p.Later:
		return fmt.Sprintf("Later is %d, the sum %d", p.Later, got.Later)
	case far != p.Far:
		return fmt.Sprintf("Far is %d, the sum of the ranks %d", p.Far, far)
	}
	return ""
}

// nodesOf returns the nodes of a plan, ascending, and what is wrong with them, or "".
func nodesOf(h plan.Host, g plan.Guest, p plan.Plan) (nodes []int, wrong string) {
	if len(g.Nodes) > 0 {
		if p.Placed != nil {
			return nil, "a guest that is placed already is placed again"
		}
		return g.Nodes, ""
	}
	if len(p.Placed) != len(g.Cells) {
		return nil, "not all cells are placed"
	}
	for i, at := range p.Placed {
		n := slices.IndexFunc(h.Room.Cells, func(c numa.Cell) bool { return c.ID == at.Node })
		if n < 0 || slices.Contains(nodes, at.Node) {
			return nil, "an unknown node, or two cells on one node"
		}
		nodes = append(nodes, at.Node)
		alone := numa.Host{Cells: h.Room.Cells[n : n+1], Limits: h.Room.Limits}
		if _, _, refusal := numa.Options(alone, g.Cells[i:i+1], false); refusal.Reason != "" {
			return nil, fmt.Sprintf("cell %d does not fit on node %d", i, at.Node)
		}
	}
	slices.Sort(nodes)
	return nodes, ""
}

// valid returns the quality of a plan, the sum of the ranks of its devices, and what is wrong with its devices, or "".
func valid(h plan.Host, g plan.Guest, p plan.Plan, nodes []int) (q plantest.Quality, far int, wrong string) {
	used, way := map[int]bool{}, map[int]bool{}
	if len(p.Devices) != len(g.Requests) {
		return q, 0, "not one list of devices for each request"
	}
	for r, list := range p.Devices {
		if len(list) != g.Requests[r].Count {
			return q, 0, fmt.Sprintf("request %d has %d devices", r, len(list))
		}
		for _, i := range list {
			d := h.Devices[i]
			rank := plantest.RankOf(d, g.Requests[r].Policy, nodes)
			if used[i] || !d.Fits[r] || rank < 0 {
				return q, 0, fmt.Sprintf("device %d is used twice, does not fit, or is too far", i)
			}
			if whole, is := way[d.Card]; d.Card != plan.NoCard && is && whole != d.Whole {
				return q, 0, fmt.Sprintf("card %d is used as a whole and in parts", d.Card)
			}
			used[i], way[d.Card] = true, d.Whole
			q.Later += d.Later
			far += rank
			switch rank {
			case numa.Local:
				q.First++
			case numa.Fair:
				q.Second++
			}
		}
	}
	for n, s := range g.Sets {
		if len(p.Values) != len(g.Sets) || len(p.Values[n]) != max(s.Times, 1) || !agrees(h, p, n, s) {
			return q, 0, fmt.Sprintf("the devices of set %d do not have its values", n)
		}
	}
	return q, far, ""
}

// agrees reports whether the devices of the requests of set n have its values.
func agrees(h plan.Host, p plan.Plan, n int, s plan.Set) bool {
	for _, r := range s.Requests {
		each := len(p.Devices[r]) / len(p.Values[n])
		for i, d := range p.Devices[r] {
			if !slices.Contains(h.Devices[d].Values[s.Family], p.Values[n][i/each]) {
				return false
			}
		}
	}
	return true
}

// wrongRefusal returns what is wrong with a refusal, or "". sets are the sets of nodes on which the cells fit.
func wrongRefusal(b plantest.BruteForce, sets [][]int, r plan.Refusal) string {
	if (r.Cells.Reason == "") != (len(sets) > 0) {
		return fmt.Sprintf("the cells fit on %v", sets)
	}
	if len(sets) == 0 {
		return ""
	}
	_, anywhere := b.Best(nil)
	if anywhere != (r.Nodes != nil) {
		return fmt.Sprintf("the devices are there anywhere: %v", anywhere)
	}
	most := 0
	if !anywhere {
		most = b.Served(nil)
	} else {
		for _, set := range sets {
			most = max(most, b.Served(set))
		}
		if !slices.ContainsFunc(sets, func(set []int) bool { return slices.Equal(set, r.Nodes) }) ||
			b.Served(r.Nodes) != most {
			return fmt.Sprintf("nodes %v do not fit or serve %d of %d", r.Nodes, b.Served(r.Nodes), most)
		}
	}
	if r.Served != most || r.Wanted != b.Wanted() {
		return fmt.Sprintf("at most %d of %d devices can be served", most, b.Wanted())
	}
	if (r.Set >= 0) != (most == r.Wanted) {
		return "a set is named if and only if all devices are there"
	}
	if r.Set < 0 {
		less := b
		less.Guest.Requests = slices.Clone(b.Guest.Requests)
		less.Guest.Requests[r.Request].Count--
		if less.Served(r.Nodes) != most {
			return fmt.Sprintf("request %d cannot be the one that lacks a device", r.Request)
		}
		return ""
	}
	if !slices.Contains(b.Guest.Sets[r.Set].Requests, r.Request) {
		return "the request is not in the set"
	}
	for n := range b.Guest.Sets {
		alone := b
		alone.Guest.Sets = b.Guest.Sets[n : n+1]
		if _, agrees := alone.Best(r.Nodes); !agrees {
			alone.Guest.Sets = b.Guest.Sets[r.Set : r.Set+1]
			if _, agrees := alone.Best(r.Nodes); agrees {
				return fmt.Sprintf("set %d agrees, set %d does not", r.Set, n)
			}
		}
	}
	return ""
}
