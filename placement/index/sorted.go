package index

import (
	"cmp"
	"iter"
	"slices"

	"github.com/openberth/berth/provider"
)

// pageSize is how many entries a page holds at most: a change copies one page and the list of pages.
const pageSize = 128

// sorted is a map from provider IDs to values, walked in the order of the IDs. Changing one gives another; the two share all pages
// but one. The zero value is empty.
type sorted[V any] struct {
	pages []*page[V]
	size  int
}

type page[V any] struct {
	keys []provider.ID
	vals []V
}

func order(a, b provider.ID) int { return cmp.Compare(a, b) }

// locate finds the page a key belongs to and its position there. With no pages it answers page 0.
func (s sorted[V]) locate(key provider.ID) (at, in int, found bool) {
	at, found = slices.BinarySearchFunc(s.pages, key, func(p *page[V], k provider.ID) int { return order(p.keys[0], k) })
	if found {
		return at, 0, true
	}
	at = max(at-1, 0)
	if len(s.pages) == 0 {
		return 0, 0, false
	}
	in, found = slices.BinarySearch(s.pages[at].keys, key)
	return at, in, found
}

func (s sorted[V]) get(key provider.ID) (v V, ok bool) {
	at, in, ok := s.locate(key)
	if !ok {
		return v, false
	}
	return s.pages[at].vals[in], true
}

// append adds an entry behind all others, in place: for building only.
func (s *sorted[V]) append(key provider.ID, v V) {
	if n := len(s.pages); n == 0 || len(s.pages[n-1].keys) >= pageSize {
		s.pages = append(s.pages, &page[V]{})
	}
	last := s.pages[len(s.pages)-1]
	last.keys = append(last.keys, key)
	last.vals = append(last.vals, v)
	s.size++
}

// set gives a map in which key has the value v.
func (s sorted[V]) set(key provider.ID, v V) sorted[V] {
	at, in, found := s.locate(key)
	if len(s.pages) == 0 {
		return sorted[V]{pages: []*page[V]{{keys: []provider.ID{key}, vals: []V{v}}}, size: 1}
	}
	old := s.pages[at]
	pages := slices.Clone(s.pages)
	if found {
		fresh := &page[V]{keys: old.keys, vals: slices.Clone(old.vals)}
		fresh.vals[in] = v
		pages[at] = fresh
		return sorted[V]{pages: pages, size: s.size}
	}
	keys := slices.Insert(slices.Clone(old.keys), in, key)
	vals := slices.Insert(slices.Clone(old.vals), in, v)
	if len(keys) <= pageSize {
		pages[at] = &page[V]{keys, vals}
		return sorted[V]{pages: pages, size: s.size + 1}
	}
	half := len(keys) / 2
	pages[at] = &page[V]{slices.Clip(keys[:half]), slices.Clip(vals[:half])}
	pages = slices.Insert(pages, at+1, &page[V]{keys[half:], vals[half:]})
	return sorted[V]{pages: pages, size: s.size + 1}
}

// remove gives a map without key.
func (s sorted[V]) remove(key provider.ID) sorted[V] {
	at, in, found := s.locate(key)
	if !found {
		return s
	}
	old := s.pages[at]
	pages := slices.Clone(s.pages)
	if len(old.keys) == 1 {
		pages = slices.Delete(pages, at, at+1)
	} else {
		pages[at] = &page[V]{
			keys: slices.Delete(slices.Clone(old.keys), in, in+1),
			vals: slices.Delete(slices.Clone(old.vals), in, in+1),
		}
	}
	return sorted[V]{pages: pages, size: s.size - 1}
}

// all walks the entries in the order of the keys.
func (s sorted[V]) all() iter.Seq2[provider.ID, V] {
	return func(yield func(provider.ID, V) bool) {
		for _, p := range s.pages {
			for i, k := range p.keys {
				if !yield(k, p.vals[i]) {
					return
				}
			}
		}
	}
}

// postings says for each number (of a class, a trait, an aggregate) which trees have it.
type postings []sorted[struct{}]

// of lists the trees of one number; none for a number that is not known.
func (p postings) of(n No) sorted[struct{}] {
	if int(n) >= len(p) {
		return sorted[struct{}]{}
	}
	return p[n]
}

// append enters a tree that comes behind all others, in place: for building only.
func (p *postings) append(numbers []No, root provider.ID) {
	for _, n := range numbers {
		p.reach(n)
		(*p)[n].append(root, struct{}{})
	}
}

func (p *postings) reach(n No) {
	for int(n) >= len(*p) {
		*p = append(*p, sorted[struct{}]{})
	}
}

// move gives postings in which a tree has the numbers after instead of before; both are sorted.
func (p postings) move(root provider.ID, before, after []No) postings {
	if slices.Equal(before, after) {
		return p
	}
	out := slices.Clone(p)
	for _, n := range before {
		if !has(after, n) {
			out[n] = out[n].remove(root)
		}
	}
	for _, n := range after {
		if !has(before, n) {
			out.reach(n)
			out[n] = out[n].set(root, struct{}{})
		}
	}
	return out
}
