package candidate_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The worlds are small and quick: try thousands of them, unless the command line says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	fmt.Printf("%d random worlds\n", worlds.Load())
	os.Exit(code)
}

// Before microversion 1.29 what All finds is sifted: of one tree, one provider gives. The solver sifts by itself.
func TestFlatIsAllSifted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		s, ask := index.Build(rows), drawAsk(t, rows)
		root := map[provider.ID]provider.ID{}
		for _, r := range rows {
			root[r.ID] = r.Root
		}
		var want []string
		for c := range candidate.All(s, ask) {
			trees := map[provider.ID]bool{}
			for id := range c.Allocation {
				trees[root[id]] = true
			}
			if len(trees) == len(c.Allocation) {
				want = append(want, key(c))
			}
		}
		ask.Flat = true
		if got := keys(candidate.All(s, ask)); !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
		if e := candidate.Explain(s, ask); (e.Reason == "") != (len(want) > 0) {
			t.Fatalf("%d candidates, %s", len(want), e)
		}
	})
}

// A wide host, asked in the old way, is refused without going through what it would have in the new way.
func TestFlatDoesNotEnumerate(t *testing.T) {
	s := index.Build(devices("cmp", 64, 0, nics, nil))
	ask := deviceAsk(64, resource.PolicyNone, nics, nil)
	ask.Flat = true
	calls := 0
	for c := range after(100, &calls).All(s, ask) {
		t.Fatal(brief(c))
	}
	if calls >= 100 {
		t.Error("it was given up")
	}
}

func TestAllIsWhatTheTwinFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		ask := drawAsk(t, rows)
		want := twinAll(rows, ask)
		got := keys(candidate.All(index.Build(rows), ask))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
	})
}

// TestWhatIsFoundOnceIsSaidOfEachTreeAlike: hosts of one shape give the same, also with hosts of other shapes between them.
func TestWhatIsFoundOnceIsSaidOfEachTreeAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := drawWorld(t)
		for i := range first {
			first[i].Traits = slices.DeleteFunc(slices.Clone(first[i].Traits), func(t resource.Trait) bool { return t == index.Sharing })
		}
		ask := drawAsk(t, first)
		ask.Limit = 0
		var rows []index.Row
		var want []string
		for _, prefix := range []provider.ID{"a", "b", "c"} {
			for root := range index.Build(first).Roots() {
				one := double(prefix, first, root)
				rows = append(rows, one...)
				want = append(want, keys(candidate.All(index.Build(one), ask))...)
			}
		}
		if got := keys(candidate.All(index.Build(rows), ask)); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Fatalf("%+v\ntogether %q\neach by itself %q", ask, got, want)
		}
	})
}

func TestSpreadIsAllInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		ask := drawAsk(t, rows)
		s := index.Build(rows)
		byRoot := map[provider.ID][]string{}
		for c := range candidate.All(s, ask) {
			byRoot[c.Root] = append(byRoot[c.Root], key(c))
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
		if got := keys(candidate.Spread(s, ask)); !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
	})
}

func TestALimitCutsTheSameSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		ask := drawAsk(t, rows)
		s := index.Build(rows)
		for _, order := range []func(*index.Snapshot, resource.Ask) func(func(candidate.Candidate) bool){
			func(s *index.Snapshot, a resource.Ask) func(func(candidate.Candidate) bool) {
				return candidate.All(s, a)
			},
			func(s *index.Snapshot, a resource.Ask) func(func(candidate.Candidate) bool) {
				return candidate.Spread(s, a)
			},
		} {
			all := keys(order(s, ask))
			short := ask
			short.Limit = rapid.IntRange(1, 5).Draw(t, "limit")
			if got, want := keys(order(s, short)), all[:min(len(all), short.Limit)]; !slices.Equal(got, want) {
				t.Fatalf("limit %d: got %q want %q", short.Limit, got, want)
			}
			for range order(s, ask) {
				break // the caller may stop at any time
			}
		}
	})
}

// TestProvidersByOtherNames renames all providers so that their order turns round, and hands in the rows backwards:
// the answers must be the same by other names.
func TestProvidersByOtherNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		ask := drawAsk(t, rows)
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
		for c := range candidate.All(index.Build(rows), ask) {
			want = append(want, key(rename(c, names)))
		}
		got := keys(candidate.All(index.Build(others), other))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
	})
}

func rename(c candidate.Candidate, names map[provider.ID]provider.ID) candidate.Candidate {
	out := candidate.Candidate{Allocation: resource.Allocation{}, Mappings: map[string][]provider.ID{}}
	for id, amounts := range c.Allocation {
		out.Allocation[names[id]] = amounts
	}
	for suffix, list := range c.Mappings {
		for _, id := range list {
			out.Mappings[suffix] = append(out.Mappings[suffix], names[id])
		}
	}
	return out
}

// TestASmallerAskNeverHasFewerHosts takes something away from an ask: every host that had a candidate still has one.
// Inventories are plain here, for with min_unit or step_size a smaller amount may be one that is never handed out.
// Hosts that sharing providers stand for are left out: a candidate of such providers alone counts for one of their
// trees.
func TestASmallerAskNeverHasFewerHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		for i := range rows {
			for c, inv := range rows[i].Inventories {
				inv.MinUnit, inv.StepSize = 1, 1
				rows[i].Inventories[c] = inv
			}
			rows[i].Traits = slices.DeleteFunc(rows[i].Traits, func(trait resource.Trait) bool { return trait == index.Sharing })
		}
		ask := drawAsk(t, rows)
		less := smaller(t, ask)
		s := index.Build(rows)
		had, has := feasible(s, ask), feasible(s, less)
		for root := range had {
			if !has[root] {
				t.Fatalf("ask %+v\nless %+v\n%s had candidates and has none\nworld %+v", ask, less, root, rows)
			}
		}
	})
}

// smaller takes one thing away from an ask.
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
	for c := range candidate.All(s, ask) {
		out[c.Root] = true
	}
	return out
}

// TestTheOrderIsThatOfTheRoots: depth first, the roots by ID, and the same each time.
func TestTheOrderIsThatOfTheRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		ask := drawAsk(t, rows)
		var roots []string
		var first, second []string
		for c := range candidate.All(index.Build(rows), ask) {
			roots = append(roots, string(c.Root))
			first = append(first, key(c))
		}
		slices.Reverse(rows)
		second = keys(candidate.All(index.Build(rows), ask))
		if !slices.IsSorted(roots) || !slices.Equal(first, second) {
			t.Fatalf("roots %s\nfirst  %q\nsecond %q", strings.Join(roots, " "), first, second)
		}
	})
}
