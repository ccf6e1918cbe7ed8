package index_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func row(id, parent, root provider.ID) index.Row {
	return index.Row{
		Provider: provider.Provider{ID: id, Name: "n-" + string(id), Parent: parent, Root: root,
			Inventories: map[resource.Class]resource.Inventory{}},
		Used: resource.Amounts{},
	}
}

func offer(r index.Row, class resource.Class, total, used int) index.Row {
	r.Inventories[class] = resource.Whole(total)
	if used > 0 {
		r.Used[class] = used
	}
	return r
}

func ids(rows []index.Row) []provider.ID {
	var out []provider.ID
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

func TestEmptySnapshot(t *testing.T) {
	s := (&index.Snapshot{}).Replace("r", nil)
	if _, ok := s.Row("r"); ok || s.Tree("r") != nil || s.Len() != 0 || s.RootOf("r") != "" || s.Lookup("r") != nil {
		t.Fatal("an empty snapshot returned a provider or a tree")
	}
	if s.Class("VCPU") != index.Unknown || s.WithClass(index.Unknown).Len() != 0 || s.Members("a") != nil {
		t.Fatal("an empty snapshot returned a class or an aggregate")
	}
}

func TestRowsAreReturnedUnchanged(t *testing.T) {
	root := offer(row("r", "", "r"), "VCPU", 8, 3)
	root.Generation = 7
	child := row("c", "r", "r")
	child.Inventories["NIC"] = resource.Inventory{
		Total:           9,
		Reserved:        1,
		MinUnit:         2,
		MaxUnit:         6,
		StepSize:        2,
		AllocationRatio: 1.5,
	}
	child.Traits = []resource.Trait{"CUSTOM_A", "CUSTOM_B"}
	child.Aggregates = []resource.AggregateID{"g1", "g2"}
	child.Used["GONE"] = 2 // usage of a class that is no longer offered
	s := index.Build([]index.Row{child, root})
	for _, want := range []index.Row{root, child} {
		if got, ok := s.Row(want.ID); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
	if got := ids(s.Tree("r")); !slices.Equal(got, []provider.ID{"r", "c"}) {
		t.Errorf("tree %v, want the parent first", got)
	}
}

// Rows with some classes and traits have nothing of others, and the rest unchanged.
func TestRowsWith(t *testing.T) {
	a, b := offer(offer(row("a", "", "a"), "VCPU", 4, 1), "DISK_GB", 10, 2), row("b", "a", "a")
	a.Traits, a.Aggregates = []resource.Trait{"CUSTOM_A", "CUSTOM_B"}, []resource.AggregateID{"g"}
	s := index.Build([]index.Row{a, b})
	got := index.RowsWith(s, []resource.Class{"VCPU", "CUSTOM_NONE"}, []resource.Trait{"CUSTOM_B", "CUSTOM_NONE"})
	want := offer(row("a", "", "a"), "VCPU", 4, 1)
	want.Traits, want.Aggregates = []resource.Trait{"CUSTOM_B"}, a.Aggregates
	if len(got) != 2 || !reflect.DeepEqual(got[0], want) || got[1].ID != "b" {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if whole := s.Tree("a"); len(whole[0].Inventories) != 2 || len(whole[0].Traits) != 2 {
		t.Errorf("the snapshot has changed: %+v", whole[0])
	}
}

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		name string
		inv  resource.Inventory
		used int
		room int
		fits map[int]bool
	}{
		{"capacity less usage", resource.Whole(8), 3, 5, map[int]bool{5: true, 6: false}},
		{"reserved units", resource.Inventory{Total: 8, Reserved: 6, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 1},
			0, 2, map[int]bool{2: true, 3: false}},
		{"capacity times ratio, rounded down", resource.Inventory{Total: 3, MinUnit: 1, MaxUnit: 9, StepSize: 1,
			AllocationRatio: 1.5}, 0, 4, map[int]bool{4: true, 5: false}},
		{"max_unit", resource.Inventory{Total: 8, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1}, 0, 2,
			map[int]bool{2: true, 3: false}},
		{"min_unit and step_size", resource.Inventory{Total: 8, MinUnit: 2, MaxUnit: 8, StepSize: 2, AllocationRatio: 1}, 0,
			8,
			map[int]bool{1: false, 2: true, 3: false, 4: true}},
		{"usage above capacity", resource.Whole(2), 5, -3, map[int]bool{1: false}},
	} {
		r := row("r", "", "r")
		r.Inventories["X"], r.Used["X"] = c.inv, c.used
		s := index.Build([]index.Row{r})
		st := s.Lookup("r").Nodes[0].Inventory(s.Class("X"))
		if st.Room != c.room {
			t.Errorf("%s: room %d, want %d", c.name, st.Room, c.room)
		}
		for amount, want := range c.fits {
			if st.Fits(amount) != want || c.inv.Fits(c.used, amount) != want {
				t.Errorf("%s: %d fits: %v, want %v", c.name, amount, !want, want)
			}
		}
	}
}

func TestInconsistentRowsAreKept(t *testing.T) {
	stray := row("stray", "nowhere", "r")
	ringA, ringB := row("a", "b", "r"), row("b", "a", "r")
	s := index.Build([]index.Row{stray, ringA, ringB, row("r", "", "r"), row("lost", "", "gone"), row("own", "", "")})
	if got := ids(s.Tree("r")); !slices.Equal(got, []provider.ID{"r", "stray", "a", "b"}) {
		t.Errorf("tree %v", got)
	}
	if r, _ := s.Row("stray"); r.Parent != "nowhere" {
		t.Errorf("parent of the stray provider %q, want nowhere", r.Parent)
	}
	if tree := s.Lookup("gone"); tree == nil || tree.Top() != nil {
		t.Error("the tree without a root row was dropped, or has a top")
	}
	if s.RootOf("own") != "own" {
		t.Error("a row without a root is not its own root")
	}
	twice := index.Build([]index.Row{row("x", "", "r1"), row("x", "", "r2")})
	if twice.Providers() != 1 || twice.RootOf("x") != "r2" {
		t.Error("of two rows with one ID, the earlier one was used")
	}
}

func TestOldSnapshotsDoNotChange(t *testing.T) {
	old := index.Build([]index.Row{offer(row("r", "", "r"), "VCPU", 8, 0), row("q", "", "q")})
	fresh := old.Replace("r", []index.Row{offer(row("r", "", "r"), "NIC", 1, 1), row("c", "r", "r")})
	gone := fresh.Replace("r", nil)
	if old.WithClass(old.Class("VCPU")).Len() != 1 || old.Class("NIC") != index.Unknown || len(old.Tree("r")) != 1 {
		t.Error("the first snapshot changed")
	}
	if fresh.WithClass(fresh.Class("VCPU")).Len() != 0 || fresh.WithClass(fresh.Class("NIC")).Len() != 1 ||
		fresh.RootOf("c") != "r" {
		t.Error("the second snapshot does not have the new rows")
	}
	if gone.Len() != 1 || gone.RootOf("c") != "" || gone.WithClass(gone.Class("NIC")).Len() != 0 {
		t.Error("the third snapshot still has the removed tree")
	}
}

func TestProvidersMoveBetweenTreesInEitherOrder(t *testing.T) {
	sharing := row("x", "a", "a")
	sharing.Traits, sharing.Aggregates = []resource.Trait{index.Sharing}, []resource.AggregateID{"g"}
	before := index.Build([]index.Row{row("a", "", "a"), sharing, row("b", "", "b")})
	sharing.Parent, sharing.Root = "b", "b"
	for _, s := range []*index.Snapshot{
		before.Replace("a", []index.Row{row("a", "", "a")}).Replace("b", []index.Row{row("b", "", "b"), sharing}),
		before.Replace("b", []index.Row{row("b", "", "b"), sharing}).Replace("a", []index.Row{row("a", "", "a")}),
	} {
		places := slices.Collect(s.SharingProviders())
		if s.RootOf("x") != "b" || s.Providers() != 3 || len(places) != 1 || places[0].Tree.Root != "b" {
			t.Errorf("x is in tree %q, want b; sharing providers %v", s.RootOf("x"), places)
		}
	}
}

// TestChangesEqualRebuild compares a snapshot after random changes with one that Build returns for the same rows.
func TestChangesEqualRebuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &index.Snapshot{}
		world := map[provider.ID][]index.Row{}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			root := provider.ID(fmt.Sprint("r", rapid.IntRange(0, 300).Draw(t, "root")))
			if rapid.IntRange(0, 3).Draw(t, "only usage") == 0 {
				s = s.WithUsage(anyUsage(t, world[root]))
				continue
			}
			if rapid.Bool().Draw(t, "one provider") {
				r := anyProvider(t, root)
				world[root] = append(
					slices.DeleteFunc(world[root], func(other index.Row) bool { return other.ID == r.ID }), r)
				s = s.WithRow(r)
				continue
			}
			var rows []index.Row
			for i := range rapid.IntRange(0, 3).Draw(t, "rows") {
				r := row(root, "", root)
				if i > 0 {
					r = row(provider.ID(fmt.Sprint(root, "-", i)), root, root)
				}
				rows = append(rows, withProperties(t, r))
			}
			s = s.Replace(root, rows)
			if world[root] = rows; len(rows) == 0 {
				delete(world, root)
			}
		}
		var all []index.Row
		for _, root := range slices.Sorted(maps.Keys(world)) {
			all = append(all, world[root]...)
		}
		if got, want := describe(s), describe(index.Build(all)); got != want {
			t.Fatalf("after the changes\n%s\nafter Build\n%s", got, want)
		}
	})
}

// withProperties draws the inventory, the traits and the aggregates of a provider.
func withProperties(t *rapid.T, r index.Row) index.Row {
	if c := rapid.SampledFrom([]resource.Class{"", "A", "B"}).Draw(t, "class"); c != "" {
		r = offer(r, c, 3, 1)
	}
	if rapid.Bool().Draw(t, "shares") {
		r.Traits = []resource.Trait{index.Sharing}
	}
	if rapid.Bool().Draw(t, "member") {
		r.Aggregates = []resource.AggregateID{"g"}
	}
	return r
}

// anyProvider draws a new or an existing provider of a tree: the root or a descendant, whose parent may be missing.
// The name and the parent of an existing provider may change.
func anyProvider(t *rapid.T, root provider.ID) index.Row {
	id := func(n int) provider.ID {
		if n == 0 {
			return root
		}
		return provider.ID(fmt.Sprint(root, "-", n))
	}
	n := rapid.IntRange(0, 6).Draw(t, "which")
	r := row(id(n), "", root)
	if n > 0 {
		r.Parent = id(rapid.IntRange(0, n-1).Draw(t, "under"))
	}
	if rapid.IntRange(0, 3).Draw(t, "renamed") == 0 {
		r.Name = rapid.SampledFrom([]string{"", "m", "zz"}).Draw(t, "name")
	}
	return withProperties(t, r)
}

// anyUsage draws another usage for these providers and one that does not exist, also of classes that they do not
// offer. It writes the usage into the rows.
func anyUsage(t *rapid.T, rows []index.Row) map[provider.ID]resource.Amounts {
	uses := map[provider.ID]resource.Amounts{"missing": {"A": 1}}
	for i := range rows {
		if rapid.Bool().Draw(t, "left out") {
			continue
		}
		rows[i].Used = resource.Amounts{}
		for _, c := range []resource.Class{"A", "B", "LATE"} {
			if n := rapid.IntRange(0, 3).Draw(t, "used"); n > 0 {
				rows[i].Used[c] = n
			}
		}
		uses[rows[i].ID] = rows[i].Used
	}
	return uses
}

// describe formats everything that a snapshot returns.
func describe(s *index.Snapshot) string {
	out := fmt.Sprintln(s.Len(), s.Providers(), s.Members("g"))
	for root := range s.Roots() {
		out += fmt.Sprintln(root, s.Tree(root))
		for _, n := range s.Lookup(root).Nodes {
			out += fmt.Sprintln(n.ID, n.Parent, n.End)
			var inventories []string // sorted, because class numbers depend on the order of the changes
			for _, st := range n.Inventories {
				inventories = append(inventories, fmt.Sprintln(n.ID, st.Used, st.Room, st.Offered()))
			}
			out += fmt.Sprint(slices.Sorted(slices.Values(inventories)))
		}
		for _, r := range s.Tree(root) {
			out += fmt.Sprintln(r.ID, s.RootOf(r.ID))
		}
	}
	for _, c := range []resource.Class{"A", "B"} {
		for t := range s.WithClass(s.Class(c)).All() {
			out += fmt.Sprintln(c, t.Root)
		}
	}
	for t := range s.WithTrait(s.Trait(index.Sharing)).All() {
		out += fmt.Sprintln("has the trait", t.Root)
	}
	for p := range s.SharingProviders() {
		out += fmt.Sprintln("sharing", p.Node().ID, p.Tree.Root)
	}
	return out
}
