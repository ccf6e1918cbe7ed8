package resource

import "maps"

// Allocation is the allocation of one consumer: amounts by provider.
type Allocation map[ProviderID]Amounts

// Equal reports whether two allocations are equal; a provider without amounts counts as absent.
func (a Allocation) Equal(b Allocation) bool { return a.covers(b) && b.covers(a) }

// Clone returns a deep copy.
func (a Allocation) Clone() Allocation {
	out := make(Allocation, len(a))
	for id, amounts := range a {
		out[id] = maps.Clone(amounts)
	}
	return out
}

// Sum returns the sum of the amounts of all providers.
func (a Allocation) Sum() Amounts {
	sum := Amounts{}
	for _, amounts := range a {
		for class, n := range amounts {
			sum[class] += n
		}
	}
	return sum
}

func (a Allocation) covers(b Allocation) bool {
	for id, amounts := range b {
		if len(amounts) > 0 && !maps.Equal(amounts, a[id]) {
			return false
		}
	}
	return true
}
