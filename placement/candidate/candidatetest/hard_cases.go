package candidatetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Hard is an ask that a search without a counting bound does not finish in useful time.
type Hard struct {
	Name string
	Rows []index.Row
	Ask  resource.Ask
}

// board returns a host of cards with devices. Each device has one unit, and give may change its row.
func board(cards, devices int, give func(card, device int, r *index.Row)) []index.Row {
	rows := []index.Row{{Provider: provider.Provider{ID: "cmp", Name: "cmp", Root: "cmp"}}}
	for c := range cards {
		card := provider.ID(fmt.Sprintf("card%02d", c))
		rows = append(rows, index.Row{Provider: provider.Provider{ID: card, Name: string(card), Parent: "cmp",
			Root: "cmp", Traits: []resource.Trait{"CUSTOM_CARD"}}})
		for d := range devices {
			id := provider.ID(fmt.Sprintf("%s_%02d", card, d))
			r := index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: card, Root: "cmp",
				Inventories: map[resource.Class]resource.Inventory{"CUSTOM_NIC": resource.Whole(1)}}}
			give(c, d, &r)
			rows = append(rows, r)
		}
	}
	return rows
}

func plain(int, int, *index.Row) {}

// groups returns an ask of n groups of one unit each, after change has changed them.
func groups(n int, policy resource.Policy, change func(i int, g *resource.Group)) resource.Ask {
	ask := resource.Ask{GroupPolicy: policy}
	for i := range n {
		g := resource.Group{Suffix: fmt.Sprintf("_%d", i), Resources: resource.Amounts{"CUSTOM_NIC": 1}}
		change(i, &g)
		ask.Groups = append(ask.Groups, g)
	}
	return ask
}

func same(int, *resource.Group) {}

func together(ask resource.Ask, sets ...[]int) resource.Ask {
	for _, set := range sets {
		var names []string
		for _, i := range set {
			names = append(names, fmt.Sprintf("_%d", i))
		}
		ask.SameSubtree = append(ask.SameSubtree, names)
	}
	return ask
}

func anchored(ask resource.Ask, per int) resource.Ask {
	n := len(ask.Groups)
	for from := 0; from < n; from += per {
		anchor := fmt.Sprintf("_card%d", from)
		set := []string{anchor}
		for i := from; i < min(n, from+per); i++ {
			set = append(set, ask.Groups[i].Suffix)
		}
		ask.Groups = append(ask.Groups, resource.Group{Suffix: anchor, Required: [][]resource.Trait{{"CUSTOM_CARD"}}})
		ask.SameSubtree = append(ask.SameSubtree, set)
	}
	return ask
}

// HardCases returns asks of which nearly all are infeasible, in three sizes.
func HardCases() []Hard {
	traits := []resource.Trait{"CUSTOM_A", "CUSTOM_B", "CUSTOM_C"}
	overlap := func(c, d int, r *index.Row) { r.Traits = []resource.Trait{traits[d%3], traits[(d+c)%3]} }
	wants := func(i int, g *resource.Group) { g.Required = [][]resource.Trait{{traits[i%3]}} }
	any2 := func(i int, g *resource.Group) { g.Required = [][]resource.Trait{{traits[i%3], traits[(i+1)%3]}} }
	units := func(n int) func(int, int, *index.Row) {
		return func(_, _ int, r *index.Row) { r.Inventories["CUSTOM_NIC"] = resource.Whole(n) }
	}
	amounts := func(of ...int) func(int, *resource.Group) {
		return func(i int, g *resource.Group) { g.Resources = resource.Amounts{"CUSTOM_NIC": of[i%len(of)]} }
	}
	none, isolate := resource.PolicyNone, resource.PolicyIsolate
	var out []Hard
	for _, n := range []int{8, 16, 64} {
		add := func(name string, rows []index.Row, ask resource.Ask) {
			out = append(out, Hard{fmt.Sprintf("%d/%s", n, name), rows, ask})
		}
		add("overlapping traits", board(1, n, overlap), groups(n+1, none, wants))
		add("overlapping traits isolate", board(1, n, overlap), groups(n+1, isolate, any2))
		add("one card short", board(n/4, 4, plain), anchored(groups(n+4, none, same), 4))
		add("one card short isolate", board(n/4, 4, plain), anchored(groups(n+4, isolate, same), 4))
		add("card too small", board(n/4, 4, plain), anchored(groups(n+1, none, same), n+1))
		add("fives on fours", board(n/4, 4, plain), anchored(groups(5*n/8, none, same), 5))
		add("threes on fours", board(n/4, 4, plain), anchored(groups(3*n/4+3, isolate, same), 3))
		add("traits on cards", board(n/4, 4, overlap), anchored(groups(n+4, none, wants), 4))
		add("twos of threes", board(1, n, units(3)), groups(n+1, none, amounts(2)))
		add("threes and twos on fours", board(1, n, units(4)), groups(n+n/2+1, none, amounts(3, 2)))
		add("sixes and fours on nines", board(1, n, units(9)), groups(n+1, none, amounts(6, 4)))
		add("mixed with the unsuffixed", board(1, n, plain), resource.Ask{GroupPolicy: isolate, Groups: append(
			[]resource.Group{{Resources: resource.Amounts{"CUSTOM_NIC": 1}}}, groups(n, isolate, same).Groups...)})
		add("mixed two units", board(1, n, units(2)), resource.Ask{GroupPolicy: isolate, Groups: append(
			[]resource.Group{{Resources: resource.Amounts{"CUSTOM_NIC": 2}}}, groups(n, isolate, same).Groups...)})
		chain := groups(n+1, isolate, same)
		for i := range n {
			chain = together(chain, []int{i, i + 1})
		}
		add("chain", board(n/4, 4, plain), chain)
		resourceless := groups(n+1, none, func(i int, g *resource.Group) {
			if i%2 == 0 {
				g.Resources, g.Required = nil, [][]resource.Trait{{"CUSTOM_CARD"}}
			}
		})
		for i := 0; i+1 <= n; i++ {
			resourceless = together(resourceless, []int{i, i + 1})
		}
		resourceless.GroupPolicy = isolate
		add("chain of anchors", board(n/4, 4, plain), resourceless)
	}
	return out
}

// Stuck returns a host of twelve NICs, and groups which need 99 % of their bandwidth in each of two directions, in
// different amounts. It takes a search very long to decide whether they fit.
func Stuck() (*index.Snapshot, resource.Ask) {
	const egress, ingress = resource.Class("NET_BW_EGR_KILOBIT_PER_SEC"), resource.Class("NET_BW_IGR_KILOBIT_PER_SEC")
	rows := []index.Row{{Provider: provider.Provider{ID: "host", Name: "host", Root: "host",
		Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(1)}}}}
	for i := range 12 {
		id := provider.ID(fmt.Sprint("dev", i))
		rows = append(rows, index.Row{Provider: provider.Provider{ID: id, Parent: "host", Root: "host",
			Inventories: map[resource.Class]resource.Inventory{egress: resource.Whole(10000),
				ingress: resource.Whole(10000)}}})
	}
	rng := rand.New(rand.NewPCG(7, 0))
	const n = 40
	out, in := split(rng, 118800, n, 1), split(rng, 118800, n, 1)
	ask := resource.Ask{GroupPolicy: resource.PolicyNone}
	for i := range n {
		ask.Groups = append(ask.Groups, resource.Group{Suffix: fmt.Sprint("_", i),
			Resources: resource.Amounts{egress: out[i], ingress: in[i]}})
	}
	return index.Build(rows), ask
}
