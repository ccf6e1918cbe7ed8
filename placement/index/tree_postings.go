package index

import (
	"slices"

	"github.com/openberth/berth/provider"
)

// postings lists, for each number of a class, a trait or an aggregate, the trees that have it.
type postings []sorted[struct{}]

// of returns the trees of one number; none for an unknown number.
func (p postings) of(n ID) sorted[struct{}] {
	if int(n) >= len(p) {
		return sorted[struct{}]{}
	}
	return p[n]
}

// append adds a tree with the greatest root, in place. Only for postings that are being built.
func (p *postings) append(numbers []ID, root provider.ID) {
	for _, n := range numbers {
		p.grow(n)
		(*p)[n].append(root, struct{}{})
	}
}

func (p *postings) grow(n ID) {
	for int(n) >= len(*p) {
		*p = append(*p, sorted[struct{}]{})
	}
}

// move returns postings in which a tree has the numbers after instead of before. Both lists are sorted.
func (p postings) move(root provider.ID, before, after []ID) postings {
	if slices.Equal(before, after) {
		return p
	}
	out := slices.Clone(p)
	for _, n := range before {
		if !contains(after, n) {
			out[n] = out[n].edit(func(d *draft[struct{}]) { d.drop(root) })
		}
	}
	for _, n := range after {
		if !contains(before, n) {
			out.grow(n)
			out[n] = out[n].edit(func(d *draft[struct{}]) { d.put(root, struct{}{}) })
		}
	}
	return out
}
