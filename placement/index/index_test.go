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

func TestAnEmptySnapshotAnswersEverything(t *testing.T) {
	s := (&index.Snapshot{}).Replace("r", nil)
	if _, ok := s.Row("r"); ok || s.Tree("r") != nil || s.Len() != 0 || s.RootOf("r") != "" || s.Lookup("r") != nil {
		t.Fatal("an empty snapshot knows something")
	}
	if s.Class("VCPU") != index.Unknown || s.WithClass(index.Unknown).Len() != 0 || s.Members("a") != nil {
		t.Fatal("an empty snapshot has names")
	}
}

func TestRowsComeBackAsTheyWent(t *testing.T) {
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
		t.Errorf("parents come first: %v", got)
	}
}

func TestRoomIsWhatCapacityUsageAndMaxUnitLeave(t *testing.T) {
	for _, c := range []struct {
		why  string
		inv  resource.Inventory
		used int
		room int
		fits map[int]bool
	}{
		{"capacity less usage", resource.Whole(8), 3, 5, map[int]bool{5: true, 6: false}},
		{"reserved units are not for " +
			"anyone", resource.Inventory{Total: 8, Reserved: 6, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 1}, 0, 2,
			map[int]bool{2: true, 3: false}},
		{"the ratio multiplies, cut down to a whole " +
			"number", resource.Inventory{Total: 3, MinUnit: 1, MaxUnit: 9, StepSize: 1, AllocationRatio: 1.5}, 0, 4,
			map[int]bool{4: true, 5: false}},
		{"max_unit bounds", resource.Inventory{Total: 8, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1}, 0, 2,
			map[int]bool{2: true, 3: false}},
		{"min_unit and step_size " +
			"shape", resource.Inventory{Total: 8, MinUnit: 2, MaxUnit: 8, StepSize: 2, AllocationRatio: 1}, 0, 8,
			map[int]bool{1: false, 2: true, 3: false, 4: true}},
		{"more taken than there is", resource.Whole(2), 5, -3, map[int]bool{1: false}},
	} {
		r := row("r", "", "r")
		r.Inventories["X"], r.Used["X"] = c.inv, c.used
		s := index.Build([]index.Row{r})
		st := s.Lookup("r").Nodes[0].Inventory(s.Class("X"))
		if st.Room != c.room {
			t.Errorf("%s: room %d, want %d", c.why, st.Room, c.room)
		}
		for amount, want := range c.fits {
			if st.Fits(amount) != want || c.inv.Fits(c.used, amount) != want {
				t.Errorf("%s: %d fits: %v, want %v", c.why, amount, !want, want)
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
		t.Errorf("the stray forgot its parent: %q", r.Parent)
	}
	if tree := s.Lookup("gone"); tree == nil || tree.Top() != nil {
		t.Error("a tree without its root row is kept, and has no top")
	}
	if s.RootOf("own") != "own" {
		t.Error("a row without a root is its own")
	}
	twice := index.Build([]index.Row{row("x", "", "r1"), row("x", "", "r2")})
	if twice.Providers() != 1 || twice.RootOf("x") != "r2" {
		t.Error("of two rows with one ID the later counts")
	}
}

func TestOldSnapshotsStayAsTheyWere(t *testing.T) {
	old := index.Build([]index.Row{offer(row("r", "", "r"), "VCPU", 8, 0), row("q", "", "q")})
	fresh := old.Replace("r", []index.Row{offer(row("r", "", "r"), "NIC", 1, 1), row("c", "r", "r")})
	gone := fresh.Replace("r", nil)
	if old.WithClass(old.Class("VCPU")).Len() != 1 || old.Class("NIC") != index.Unknown || len(old.Tree("r")) != 1 {
		t.Error("the first snapshot changed")
	}
	if fresh.WithClass(fresh.Class("VCPU")).Len() != 0 || fresh.WithClass(fresh.Class("NIC")).Len() != 1 ||
		fresh.RootOf("c") != "r" {
		t.Error("the second is not what was put")
	}
	if gone.Len() != 1 || gone.RootOf("c") != "" || gone.WithClass(gone.Class("NIC")).Len() != 0 {
		t.Error("the third still has the tree")
	}
}

func TestProvidersMoveBetweenTreesInEitherOrder(t *testing.T) {
	lender := row("x", "a", "a")
	lender.Traits, lender.Aggregates = []resource.Trait{index.Sharing}, []resource.AggregateID{"g"}
	before := index.Build([]index.Row{row("a", "", "a"), lender, row("b", "", "b")})
	lender.Parent, lender.Root = "b", "b"
	for _, s := range []*index.Snapshot{
		before.Replace("a", []index.Row{row("a", "", "a")}).Replace("b", []index.Row{row("b", "", "b"), lender}),
		before.Replace("b", []index.Row{row("b", "", "b"), lender}).Replace("a", []index.Row{row("a", "", "a")}),
	} {
		places := slices.Collect(s.SharingProviders())
		if s.RootOf("x") != "b" || s.Providers() != 3 || len(places) != 1 || places[0].Tree.Root != "b" {
			t.Errorf("x is in %q, sharers %v", s.RootOf("x"), places)
		}
	}
}

// TestAnyLineOfReplacementsEqualsABuild compares a snapshot that has been through many changes with one built of the
// same rows.
func TestAnyLineOfReplacementsEqualsABuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &index.Snapshot{}
		world := map[provider.ID][]index.Row{}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			root := provider.ID(fmt.Sprint("r", rapid.IntRange(0, 300).Draw(t, "root")))
			if rapid.IntRange(0, 3).Draw(t, "only usage") == 0 {
				s = s.WithUsage(use(t, world[root]))
				continue
			}
			if rapid.Bool().Draw(t, "one provider") {
				r := one(t, root)
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
				rows = append(rows, furnish(t, r))
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
			t.Fatalf("after replacements\n%s\nbuilt\n%s", got, want)
		}
	})
}

// furnish draws what a provider has.
func furnish(t *rapid.T, r index.Row) index.Row {
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

// one draws a provider of a tree, new or not: the root, one under it, or one under any of these, which need not be
// there; its name and
// its parent may be others than before.
func one(t *rapid.T, root provider.ID) index.Row {
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
	return furnish(t, r)
}

// use draws another usage for these providers, also of classes that they do not offer, and writes it into the rows.
// Of providers
// that are not there it is drawn too.
func use(t *rapid.T, rows []index.Row) map[provider.ID]resource.Amounts {
	uses := map[provider.ID]resource.Amounts{"nobody": {"A": 1}}
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

// describe writes all that can be asked of a snapshot.
func describe(s *index.Snapshot) string {
	out := fmt.Sprintln(s.Len(), s.Providers(), s.Members("g"))
	for root := range s.Roots() {
		out += fmt.Sprintln(root, s.Tree(root))
		for _, n := range s.Lookup(root).Nodes {
			out += fmt.Sprintln(n.ID, n.Parent, n.End)
			var stocks []string // the numbers of classes are in the order in which they were learnt
			for _, st := range n.Inventories {
				stocks = append(stocks, fmt.Sprintln(n.ID, st.Used, st.Room, st.Offered()))
			}
			out += fmt.Sprint(slices.Sorted(slices.Values(stocks)))
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
		out += fmt.Sprintln("shares", t.Root)
	}
	for p := range s.SharingProviders() {
		out += fmt.Sprintln("lends", p.Node().ID, p.Tree.Root)
	}
	return out
}
