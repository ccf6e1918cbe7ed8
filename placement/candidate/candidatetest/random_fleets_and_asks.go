// Package candidatetest makes fleets and asks for the tests of the solver and the explainer, and finds candidates by
// brute force to compare with. It is used by tests only.
package candidatetest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

var (
	someClasses    = []resource.Class{"VCPU", "CUSTOM_NIC", "CUSTOM_GPU"}
	someTraits     = []resource.Trait{"CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_GREEN", index.Sharing}
	askedTraits    = append(someTraits[:4:4], "CUSTOM_UNHEARD_OF")
	someAggregates = []resource.AggregateID{"agg1", "agg2", "agg3"}
)

// Worlds counts the fleets that DrawWorld has made.
var Worlds atomic.Int64

// DrawWorld returns a small random fleet: a few trees of a few providers, with everything that an ask may depend on.
func DrawWorld(t *rapid.T) []index.Row {
	Worlds.Add(1)
	var rows []index.Row
	for tree := range rapid.IntRange(1, 3).Draw(t, "trees") {
		var ids []provider.ID
		for at := range rapid.IntRange(1, 4).Draw(t, "providers") {
			r := index.Row{Provider: provider.Provider{ID: provider.ID(fmt.Sprintf("t%dp%d", tree, at))}}
			r.Name = strings.ToUpper(string(r.ID))
			if at > 0 {
				r.Parent = rapid.SampledFrom(ids).Draw(t, "parent")
			}
			ids = append(ids, r.ID)
			r.Root = ids[0]
			drawOffer(t, &r)
			rows = append(rows, r)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "double") == 3 {
		rows = append(rows, Double("z", rows, rows[rapid.IntRange(0, len(rows)-1).Draw(t, "double")].Root)...)
	}
	return rows
}

// Double returns a copy of a tree under other IDs: the two trees have one shape.
func Double(prefix provider.ID, rows []index.Row, root provider.ID) []index.Row {
	var out []index.Row
	other := func(id provider.ID) provider.ID {
		if id == "" {
			return ""
		}
		return prefix + id
	}
	for _, r := range rows {
		if r.Root == root {
			r.ID, r.Parent, r.Root = other(r.ID), other(r.Parent), other(r.Root)
			r.Name = strings.ToUpper(string(r.ID))
			out = append(out, r)
		}
	}
	return out
}

func drawOffer(t *rapid.T, r *index.Row) {
	r.Inventories, r.Used = map[resource.Class]resource.Inventory{}, resource.Amounts{}
	for _, c := range someClasses {
		if rapid.IntRange(0, 2).Draw(t, "offered") == 0 {
			continue
		}
		inv := resource.Whole(rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "total"))
		if rapid.IntRange(0, 5).Draw(t, "odd") == 5 {
			inv.Reserved = rapid.IntRange(0, 1).Draw(t, "reserved")
			inv.MaxUnit = rapid.IntRange(1, inv.Total).Draw(t, "max")
			inv.MinUnit = rapid.IntRange(1, 2).Draw(t, "min")
			inv.StepSize = rapid.IntRange(1, 2).Draw(t, "step")
			inv.AllocationRatio = rapid.SampledFrom([]float64{1, 1.5, 0.5}).Draw(t, "ratio")
		}
		r.Inventories[c] = inv
		if rapid.IntRange(0, 5).Draw(t, "held") == 5 {
			r.Used[c] = rapid.IntRange(0, 3).Draw(t, "used")
		}
	}
	r.Traits = drawSome(t, someTraits, 2)
	r.Aggregates = drawSome(t, someAggregates, 3)
}

// drawSome returns some of the words, each with a chance of one in n.
func drawSome[N ~string](t *rapid.T, words []N, n int) []N {
	var out []N
	for _, w := range words {
		if rapid.IntRange(1, n).Draw(t, "some") == n {
			out = append(out, w)
		}
	}
	return out
}

// DrawAsk returns a random ask that the API would accept.
func DrawAsk(t *rapid.T, rows []index.Row) resource.Ask {
	policies := []resource.Policy{resource.PolicyNone, resource.PolicyIsolate}
	ask := resource.Ask{GroupPolicy: rapid.SampledFrom(policies).Draw(t, "policy")}
	suffixes := []string{"_A", "_B", "_C", "_D"}[:rapid.IntRange(0, 4).Draw(t, "groups")]
	if len(suffixes) == 0 || rapid.Bool().Draw(t, "unsuffixed") {
		ask.Groups = append(ask.Groups, drawGroup(t, "", 2, rows))
	}
	for i := 0; len(suffixes) > 1 && i < max(0, rapid.IntRange(-2, 2).Draw(t, "subtrees")); i++ {
		ask.SameSubtree = append(ask.SameSubtree, drawSome(t, suffixes, 2))
	}
	for i, suffix := range suffixes {
		g := drawGroup(t, suffix, 2, rows)
		if i > 0 && rapid.Bool().Draw(t, "repeated") {
			g = ask.Groups[len(ask.Groups)-1]
			g.Suffix = suffix
		}
		clause := slices.ContainsFunc(ask.SameSubtree, func(c []string) bool { return slices.Contains(c, suffix) })
		if clause && rapid.IntRange(0, 3).Draw(t, "resourceless") == 3 {
			g.Resources = nil
		}
		ask.Groups = append(ask.Groups, g)
	}
	if rapid.IntRange(0, 7).Draw(t, "root") == 7 {
		ask.RootRequired = drawSome(t, askedTraits[:3], 3)
		required := func(trait resource.Trait) bool { return slices.Contains(ask.RootRequired, trait) }
		ask.RootForbidden = slices.DeleteFunc(drawSome(t, askedTraits, 2), required)
	}
	return ask
}

func drawGroup(t *rapid.T, suffix string, classes int, rows []index.Row) resource.Group {
	g := resource.Group{Suffix: suffix, Resources: resource.Amounts{}}
	for range rapid.SampledFrom([]int{1, 1, classes}).Draw(t, "classes") {
		class := rapid.SampledFrom(someClasses).Draw(t, "class")
		g.Resources[class] = rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "amount")
	}
	for range max(0, rapid.IntRange(-4, 2).Draw(t, "required")) {
		if set := drawSome(t, askedTraits, 3); len(set) > 0 {
			g.Required = append(g.Required, set)
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "forbid") == 5 {
		g.Forbidden = drawSome(t, askedTraits, 3)
	}
	for range max(0, rapid.IntRange(-6, 2).Draw(t, "member")) {
		if set := drawSome(t, someAggregates, 2); len(set) > 0 {
			g.MemberOf = append(g.MemberOf, set)
		}
	}
	if rapid.IntRange(0, 7).Draw(t, "without") == 7 {
		g.NotMemberOf = drawSome(t, someAggregates, 3)
	}
	if rapid.IntRange(0, 9).Draw(t, "in tree") == 9 {
		g.InTree = rapid.SampledFrom(rows).Draw(t, "tree").ID
	}
	return g
}
