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

// ByName returns the allocation with the providers and classes as texts, as documents have them. It is never nil.
func (a Allocation) ByName() map[string]map[string]int {
	out := make(map[string]map[string]int, len(a))
	for id, amounts := range a {
		out[string(id)] = amounts.ByName()
	}
	return out
}

// Add returns the sum of two allocations, without amounts of zero.
func (a Allocation) Add(b Allocation) Allocation {
	all := Allocation{}
	for _, one := range []Allocation{a, b} {
		for id, amounts := range one {
			all.put(id, amounts, func(class Class, n int) int { return all[id][class] + max(n, 0) })
		}
	}
	return all
}

// Excess returns by how much an allocation exceeds another one.
func (a Allocation) Excess(b Allocation) Allocation {
	more := Allocation{}
	for id, amounts := range a {
		more.put(id, amounts, func(class Class, n int) int { return n - b[id][class] })
	}
	return more
}

// Common returns what two allocations both have.
func (a Allocation) Common(b Allocation) Allocation {
	both := Allocation{}
	for id, amounts := range a {
		both.put(id, amounts, func(class Class, n int) int { return min(n, b[id][class]) })
	}
	return both
}

// put sets the amounts of a provider to what amount returns for each class, if that is above 0.
func (a Allocation) put(id ProviderID, amounts Amounts, amount func(Class, int) int) {
	for class, n := range amounts {
		if n = amount(class, n); n <= 0 {
			continue
		}
		if a[id] == nil {
			a[id] = Amounts{}
		}
		a[id][class] = n
	}
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
