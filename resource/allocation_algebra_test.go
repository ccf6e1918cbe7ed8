package resource

import (
	"testing"

	"pgregory.net/rapid"
)

// The operations on allocations agree: two allocations together have what they both have, and what each has beyond it.
// No result has amounts of zero, and no operand is changed.
func TestAllocationAlgebra(t *testing.T) {
	any := rapid.MapOf(rapid.SampledFrom([]ProviderID{"p", "q"}), rapid.MapOf(rapid.SampledFrom([]Class{"A", "B", "C"}),
		rapid.IntRange(0, 3)))
	rapid.Check(t, func(t *rapid.T) {
		read := func(name string) Allocation {
			a := Allocation{}
			for id, amounts := range any.Draw(t, name) {
				a[id] = amounts
			}
			return a
		}
		a, b := read("a"), read("b")
		before := a.Clone()
		sum, more, less, both := a.Add(b), a.Excess(b), b.Excess(a), a.Common(b)
		if !sum.Equal(b.Add(a)) || !both.Equal(b.Common(a)) || !sum.Equal(both.Add(both).Add(more).Add(less)) ||
			!a.Add(nil).Equal(both.Add(more)) || len(a.Excess(a)) > 0 || !sum.Excess(b).Equal(a.Add(nil)) {
			t.Errorf("a %v, b %v: sum %v, common %v, a beyond b %v, b beyond a %v", a, b, sum, both, more, less)
		}
		for _, one := range []Allocation{sum, more, less, both} {
			for id, amounts := range one {
				if len(amounts) == 0 || len(amounts) != len(amounts.Positive()) {
					t.Errorf("%s has %v in %v", id, amounts, one)
				}
			}
		}
		if !a.Equal(before) {
			t.Errorf("a was %v and is %v", before, a)
		}
	})
}
