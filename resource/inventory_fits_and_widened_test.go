package resource

import "testing"

func TestInventoryFits(t *testing.T) {
	inv := Inventory{Total: 10, Reserved: 2, MinUnit: 2, MaxUnit: 6, StepSize: 2, AllocationRatio: 1.5}
	for _, c := range []struct {
		used, amount int
		refuse       string
	}{
		{0, 6, ""},
		{8, 4, ""},
		{9, 4, "asks 4, 3 of 12 free (2 reserved)"},
		{0, 1, "asks 1, the smallest share is 2"},
		{0, 8, "asks 8, the largest share is 6"},
		{0, 5, "asks 5, shares come in steps of 2"},
	} {
		if got := inv.Refuse(c.used, c.used, c.amount); got != c.refuse {
			t.Errorf("used %d amount %d: %q, want %q", c.used, c.amount, got, c.refuse)
		}
		if inv.Fits(c.used, c.amount) != (c.refuse == "") {
			t.Errorf("used %d amount %d: Fits and Refuse disagree", c.used, c.amount)
		}
	}
	if got := Whole(4).Refuse(4, 4, 1); got != "asks 1, 0 of 4 free" {
		t.Errorf("full: %q", got)
	}
}

// A use above the capacity is refused only if it was smaller before; the limits of an amount always apply.
func TestRefuseAboveTheCapacity(t *testing.T) {
	inv := Inventory{Total: 10, Reserved: 6, MinUnit: 2, MaxUnit: 6, StepSize: 2, AllocationRatio: 1}
	for _, c := range []struct {
		before, used, amount int
		refuse               string
	}{
		{8, 2, 6, ""},
		{8, 2, 4, ""},
		{8, 4, 6, "asks 6, 0 of 4 free (6 reserved)"},
		{8, 8, 2, "asks 2, 0 of 4 free (6 reserved)"},
		{0, 0, 4, ""},
		{8, 0, 8, "asks 8, the largest share is 6"},
		{8, 5, 3, "asks 3, shares come in steps of 2"},
		{8, 7, 1, "asks 1, the smallest share is 2"},
	} {
		if got := inv.Refuse(c.before, c.used, c.amount); got != c.refuse {
			t.Errorf("before %d used %d amount %d: %q, want %q", c.before, c.used, c.amount, got, c.refuse)
		}
	}
}

// Room for what is taken, and no more.
func TestWidened(t *testing.T) {
	spent := Whole(1)
	spent.Reserved = 1
	lowered := Inventory{Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 1.5}
	for _, c := range []struct {
		what         string
		before       Inventory
		used, amount int
		total, free  int
	}{
		{"enough", Whole(4), 3, 1, 4, 1},
		{"spent", spent, 1, 1, 2, 0},
		{"a ratio that was lowered", lowered, 20, 4, 14, 1},
		{"a ratio for which no total is " +
			"enough", Inventory{Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1e-30}, 3, 1, 1, -3},
		{"a total that shrank below a share", Whole(1), 3, 2, 3, 0},
	} {
		w := c.before.Widened(c.used, c.amount)
		if w.Total != c.total || w.Capacity()-c.used != c.free || w.Reserved != c.before.Reserved ||
			!w.Shape(c.amount) {
			t.Errorf("%s: %+v has %d free", c.what, w, w.Capacity()-c.used)
		}
	}
}
