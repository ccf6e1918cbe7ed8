package candidate_test

import (
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestMain sets the number of random fleets. They are small, so thousands are tried.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	fmt.Printf("%d random fleets\n", ct.Worlds.Load())
	os.Exit(code)
}

// find is Find without options.
func find(s *index.Snapshot, ask resource.Ask) iter.Seq[candidate.Candidate] {
	return candidate.Find(s, ask, candidate.Options{})
}

// TestFlatKeepsOneProviderPerTree checks that with Ask.Flat (before microversion 1.29) Find returns only the candidates
// that use one provider of each tree.
func TestFlatKeepsOneProviderPerTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		s, ask := index.Build(rows), ct.DrawAsk(t, rows)
		root := map[provider.ID]provider.ID{}
		for _, r := range rows {
			root[r.ID] = r.Root
		}
		var want []string
		for c := range find(s, ask) {
			trees := map[provider.ID]bool{}
			for id := range c.Allocation() {
				trees[root[id]] = true
			}
			if len(trees) == len(c.Allocation()) {
				want = append(want, ct.Key(c))
			}
		}
		ask.Flat = true
		got := ct.Keys(find(s, ask))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
	})
}

// TestFlatDoesNotEnumerate checks that on a wide host Find does not enumerate the candidates that Ask.Flat excludes.
func TestFlatDoesNotEnumerate(t *testing.T) {
	s := index.Build(ct.Devices("cmp", 64, 0, ct.NICs, nil))
	ask := ct.DeviceAsk(64, resource.PolicyNone, ct.NICs, nil)
	ask.Flat = true
	calls := 0
	for c := range candidate.Find(s, ask, candidate.Options{Stop: ct.StopAfter(100, &calls)}) {
		t.Fatal(ct.Brief(c))
	}
	if calls >= 100 {
		t.Error("the search was stopped")
	}
}

func TestFindMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		want := ct.BruteForce(rows, ask)
		got := ct.Keys(find(index.Build(rows), ask))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
	})
}

// TestTreesOfOneShapeHaveTheSameCandidates compares trees of one shape, with trees of other shapes between them.
func TestTreesOfOneShapeHaveTheSameCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := ct.DrawWorld(t)
		for i := range first {
			first[i].Traits = slices.DeleteFunc(slices.Clone(first[i].Traits), isSharing)
		}
		ask := ct.DrawAsk(t, first)
		ask.Limit = 0
		var rows []index.Row
		var want []string
		for _, prefix := range []provider.ID{"a", "b", "c"} {
			for root := range index.Build(first).Roots() {
				one := ct.Double(prefix, first, root)
				rows = append(rows, one...)
				want = append(want, ct.Keys(find(index.Build(one), ask))...)
			}
		}
		got := ct.Keys(find(index.Build(rows), ask))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v\nall trees %q\none tree  %q", ask, got, want)
		}
	})
}

func isSharing(t resource.Trait) bool { return t == index.Sharing }

func TestBreadthFirstTakesTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		s := index.Build(rows)
		byRoot := map[provider.ID][]string{}
		for c := range find(s, ask) {
			byRoot[c.Root] = append(byRoot[c.Root], ct.Key(c))
		}
		var want []string
		for turn := 0; len(byRoot) > 0; turn++ {
			for _, root := range slices.Sorted(maps.Keys(byRoot)) {
				if turn == len(byRoot[root]) {
					delete(byRoot, root)
					continue
				}
				want = append(want, byRoot[root][turn])
			}
		}
		if got := ct.Keys(candidate.Find(s, ask, candidate.Options{BreadthFirst: true})); !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
	})
}

// A breadth-first search that begins later takes the trees of each turn in rotated order.
func TestFirstRotatesEachTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		s := index.Build(rows)
		order := func(first int) (keys []string, roots []provider.ID) {
			for c := range candidate.Find(s, ask, candidate.Options{BreadthFirst: true, First: first}) {
				keys = append(keys, ct.Key(c))
				if !slices.Contains(roots, c.Root) {
					roots = append(roots, c.Root)
				}
			}
			return keys, roots
		}
		all, roots := order(0)
		got, rotated := order(rapid.IntRange(0, 2*len(rows)+1).Draw(t, "first"))
		if slices.Sort(all); !slices.Equal(slices.Sorted(slices.Values(got)), all) {
			t.Fatalf("got  %q\nwant %q, in any order", got, all)
		}
		twice := append(roots, roots...)
		if at := slices.Index(twice, append(rotated, "")[0]); at >= 0 && !slices.Equal(rotated, twice[at:at+len(roots)]) {
			t.Fatalf("the roots %q are no rotation of %q", rotated, roots)
		}
	})
}

func TestLimitCutsTheSameSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		s := index.Build(rows)
		for _, breadthFirst := range []bool{false, true} {
			o := candidate.Options{BreadthFirst: breadthFirst}
			all := ct.Keys(candidate.Find(s, ask, o))
			short := ask
			short.Limit = rapid.IntRange(1, 5).Draw(t, "limit")
			got, want := ct.Keys(candidate.Find(s, short, o)), all[:min(len(all), short.Limit)]
			if !slices.Equal(got, want) {
				t.Fatalf("limit %d: got %q want %q", short.Limit, got, want)
			}
			for range candidate.Find(s, ask, o) {
				break // the caller may stop at any time
			}
		}
	})
}

// TestRenamedProvidersHaveTheSameCandidates renames all providers so that their order is reversed, and passes the rows
// in reverse order.
func TestRenamedProvidersHaveTheSameCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		names := map[provider.ID]provider.ID{"": ""}
		for i, r := range rows {
			names[r.ID] = provider.ID(fmt.Sprintf("%03d", 999-i))
		}
		var others []index.Row
		for _, r := range rows {
			r.ID, r.Parent, r.Root = names[r.ID], names[r.Parent], names[r.Root]
			r.Name = string(r.ID)
			others = append(others, r)
		}
		slices.Reverse(others)
		other := ask
		other.Groups = slices.Clone(ask.Groups)
		for i := range other.Groups {
			other.Groups[i].InTree = names[other.Groups[i].InTree]
		}
		var want []string
		for c := range find(index.Build(rows), ask) {
			want = append(want, rename(c, names))
		}
		got := ct.Keys(find(index.Build(others), other))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
	})
}

// rename returns the key of a candidate with other names for the providers.
func rename(c candidate.Candidate, names map[provider.ID]provider.ID) string {
	allocation, mappings := resource.Allocation{}, map[string][]provider.ID{}
	for id, amounts := range c.Allocation() {
		allocation[names[id]] = amounts
	}
	for suffix, list := range c.Mappings() {
		for _, id := range list {
			mappings[suffix] = append(mappings[suffix], names[id])
		}
	}
	return ct.KeyOf(allocation, mappings)
}

// TestASmallerAskNeverHasFewerHosts removes one thing from an ask. Every host that had a candidate still has one.
// Inventories have no min_unit and step_size here, because these may exclude a smaller amount. There are no sharing
// providers, because a candidate of sharing providers alone belongs to only one of their trees.
func TestASmallerAskNeverHasFewerHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		for i := range rows {
			for c, inv := range rows[i].Inventories {
				inv.MinUnit, inv.StepSize = 1, 1
				rows[i].Inventories[c] = inv
			}
			rows[i].Traits = slices.DeleteFunc(rows[i].Traits, isSharing)
		}
		ask := ct.DrawAsk(t, rows)
		less := smaller(t, ask)
		s := index.Build(rows)
		had, has := feasible(s, ask), feasible(s, less)
		for root := range had {
			if !has[root] {
				t.Fatalf("ask %+v\nless %+v\n%s lost its candidates\nworld %+v", ask, less, root, rows)
			}
		}
	})
}

// smaller removes one thing from an ask.
func smaller(t *rapid.T, ask resource.Ask) resource.Ask {
	ask.Groups = slices.Clone(ask.Groups)
	i := rapid.IntRange(0, len(ask.Groups)-1).Draw(t, "group")
	g := &ask.Groups[i]
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0:
		if len(ask.Groups) > 1 && len(g.Resources) > 0 {
			ask.Groups = slices.Delete(ask.Groups, i, i+1)
		}
	case 1:
		g.Resources = maps.Clone(g.Resources)
		for c, n := range g.Resources {
			g.Resources[c] = max(1, n-1)
		}
	case 2:
		if len(g.Resources) > 0 {
			g.Required, g.MemberOf = nil, nil
		}
	case 3:
		g.Forbidden, g.NotMemberOf = nil, nil
	case 4:
		ask.GroupPolicy = resource.PolicyNone
	case 5:
		ask.SameSubtree = nil
	case 6:
		ask.RootRequired, ask.RootForbidden = nil, nil
	}
	return ask
}

func feasible(s *index.Snapshot, ask resource.Ask) map[provider.ID]bool {
	out := map[provider.ID]bool{}
	for c := range find(s, ask) {
		out[c.Root] = true
	}
	return out
}

// TestCandidatesAreOrderedByRoot checks that candidates are in the order of the IDs of their roots, whatever the order
// of the rows.
func TestCandidatesAreOrderedByRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		ask := ct.DrawAsk(t, rows)
		var roots []string
		var first, second []string
		for c := range find(index.Build(rows), ask) {
			roots = append(roots, string(c.Root))
			first = append(first, ct.Key(c))
		}
		slices.Reverse(rows)
		second = ct.Keys(find(index.Build(rows), ask))
		if !slices.IsSorted(roots) || !slices.Equal(first, second) {
			t.Fatalf("roots %s\nfirst  %q\nsecond %q", strings.Join(roots, " "), first, second)
		}
	})
}
