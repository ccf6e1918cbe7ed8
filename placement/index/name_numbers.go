package index

import (
	"maps"
	"slices"
)

// ID is the dense number of a class, a trait or an aggregate in a snapshot and in those derived from it.
type ID uint32

// Unknown is the number of a name that no provider has ever had; no list contains it.
const Unknown ID = 1<<32 - 1

// numbers assigns numbers to names, in the order in which they are added. A value never changes; with returns a
// larger one.
type numbers[N ~string] struct {
	names  []N
	byName map[N]ID
}

// with returns numbers that include these names. Names are never removed: there are few, and other snapshots use
// their numbers.
func (n numbers[N]) with(names map[N]struct{}) numbers[N] {
	maps.DeleteFunc(names, func(name N, _ struct{}) bool { _, known := n.byName[name]; return known })
	if len(names) == 0 {
		return n
	}
	out := numbers[N]{names: slices.Clone(n.names), byName: make(map[N]ID, len(n.byName)+len(names))}
	maps.Copy(out.byName, n.byName)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out.byName[name] = ID(len(out.names))
		out.names = append(out.names, name)
	}
	return out
}

func (n numbers[N]) of(name N) ID {
	if no, ok := n.byName[name]; ok {
		return no
	}
	return Unknown
}

// contains reports whether a sorted list contains a number.
func contains(list []ID, n ID) bool {
	if len(list) > 16 {
		_, found := slices.BinarySearch(list, n)
		return found
	}
	return slices.Contains(list, n)
}
