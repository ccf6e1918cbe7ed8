package index_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// After random changes, WithRoom, SameShape and Shapes return the same trees as a scan of all trees.
func TestOrdersMatchAFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(n int) []index.Row {
			root := provider.ID(fmt.Sprintf("r%03d", n))
			rows := []index.Row{row(root, "", root)}
			for c := range rapid.IntRange(0, 2).Draw(t, "children") {
				child := row(provider.ID(fmt.Sprintf("%sc%d", root, c)), root, root)
				total := rapid.SampledFrom([]int{1, 2, 5, 1 << 40}).Draw(t, "total")
				rows = append(rows, offer(child, "NIC", total, min(total, rapid.IntRange(0, 3).Draw(t, "used"))))
			}
			return rows
		}
		many := rapid.SampledFrom([]int{0, 3, 400}).Draw(t, "trees")
		var rows []index.Row
		for n := range many {
			rows = append(rows, draw(n%7)...)
			for i := len(rows) - 1; i >= 0 && rows[i].Root == provider.ID(fmt.Sprintf("r%03d", n%7)); i-- {
				rows[i].ID = provider.ID(fmt.Sprintf("%03d", n)) + rows[i].ID
				rows[i].Root = provider.ID(fmt.Sprintf("%03d", n)) + rows[i].Root
				if rows[i].Parent != "" {
					rows[i].Parent = rows[i].Root
				}
			}
		}
		s := index.Build(rows)
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			n := rapid.IntRange(0, 4).Draw(t, "tree")
			root := provider.ID(fmt.Sprintf("r%03d", n))
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				s = s.Replace(root, draw(n))
			case 1:
				s = s.Replace(root, nil)
			default:
				s = s.WithUsage(
					map[provider.ID]resource.Amounts{root + "c0": {"NIC": rapid.IntRange(0, 1).Draw(t, "use")}})
			}
		}
		for _, amount := range []int{1, 2, 3, 1 << 20, 1 << 40} {
			got := map[provider.ID]bool{}
			for tree := range s.WithRoom(s.Class("NIC"), amount).All() {
				got[tree.Root] = true
			}
			if s.WithRoom(s.Class("NIC"), amount).Len(1000) != len(got) {
				t.Fatalf("Len does not return the number of trees, %d", len(got))
			}
			for tree := range s.Trees() {
				most := 0
				for i := range tree.Nodes {
					if st := tree.Nodes[i].Inventory(s.Class("NIC")); st != nil {
						most = max(most, st.Room)
					}
				}
				if most >= amount && !got[tree.Root] || most < (amount+1)/2 && got[tree.Root] {
					t.Fatalf("%s has room for %d; WithRoom(%d) returns it: %v", tree.Root, most, amount,
						got[tree.Root])
				}
				delete(got, tree.Root)
			}
			if len(got) > 0 {
				t.Fatalf("WithRoom returns trees that are not in the snapshot: %v", got)
			}
		}
		checkShapes(t, s)
	})
}

func checkShapes(t *rapid.T, s *index.Snapshot) {
	want := map[index.Shape][]provider.ID{}
	for tree := range s.Trees() {
		want[tree.Shape] = append(want[tree.Shape], tree.Root)
	}
	got := map[index.Shape][]provider.ID{}
	for tree := range s.Shapes() {
		for same := range s.SameShape(tree).All() {
			got[tree.Shape] = append(got[tree.Shape], same.Root)
		}
	}
	if !maps.EqualFunc(want, got, slices.Equal[[]provider.ID]) {
		t.Fatalf("shapes\n%v\nwant\n%v", got, want)
	}
}
