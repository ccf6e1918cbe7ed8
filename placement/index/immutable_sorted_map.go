package index

import (
	"cmp"
	"iter"
	"slices"

	"github.com/openberth/berth/provider"
)

// pageSize is the largest number of entries in a page. A change copies one page and the list of pages.
const pageSize = 128

// sorted is an immutable map from provider IDs to values, iterated in the order of the IDs. A change returns another
// map that shares all pages but one. The zero value is empty.
type sorted[V any] struct {
	pages []*page[V]
	size  int
}

type page[V any] struct {
	keys []provider.ID
	vals []V
}

func order(a, b provider.ID) int { return cmp.Compare(a, b) }

// locate returns the page to which a key belongs and its position there. Without pages it returns page 0.
func (s sorted[V]) locate(key provider.ID) (at, in int, found bool) {
	at, found = slices.BinarySearchFunc(s.pages, key,
		func(p *page[V], k provider.ID) int { return order(p.keys[0], k) })
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

// append adds an entry with the greatest key, in place. Only for a map that is being built.
func (s *sorted[V]) append(key provider.ID, v V) {
	if n := len(s.pages); n == 0 || len(s.pages[n-1].keys) >= pageSize {
		s.pages = append(s.pages, &page[V]{})
	}
	last := s.pages[len(s.pages)-1]
	last.keys = append(last.keys, key)
	last.vals = append(last.vals, v)
	s.size++
}

// edit returns the map after the changes of f. It copies the list of pages once, and each page that changes.
func (s sorted[V]) edit(f func(*draft[V])) sorted[V] {
	d := &draft[V]{s, false}
	f(d)
	return d.sorted
}

// draft is a map that is being changed: put and drop work in place, but never on pages of another map.
type draft[V any] struct {
	sorted[V]
	own bool // this draft has its own list of pages
}

// swap replaces a page by other pages.
func (d *draft[V]) swap(at int, pages ...*page[V]) {
	if !d.own {
		d.pages, d.own = slices.Clone(d.pages), true
	}
	if len(pages) == 1 && at < len(d.pages) {
		d.pages[at] = pages[0]
		return
	}
	d.pages = slices.Replace(d.pages, at, min(at+1, len(d.pages)), pages...)
}

// put sets the value of key.
func (d *draft[V]) put(key provider.ID, v V) {
	at, in, found := d.locate(key)
	if len(d.pages) == 0 {
		d.swap(0, &page[V]{[]provider.ID{key}, []V{v}})
		d.size++
		return
	}
	old := d.pages[at]
	if found {
		fresh := &page[V]{old.keys, slices.Clone(old.vals)}
		fresh.vals[in] = v
		d.swap(at, fresh)
		return
	}
	d.size++
	keys, vals := slices.Insert(slices.Clone(old.keys), in, key), slices.Insert(slices.Clone(old.vals), in, v)
	if half := len(keys) / 2; len(keys) > pageSize {
		d.swap(at, &page[V]{slices.Clip(keys[:half]), slices.Clip(vals[:half])}, &page[V]{keys[half:], vals[half:]})
		return
	}
	d.swap(at, &page[V]{keys, vals})
}

// drop removes key.
func (d *draft[V]) drop(key provider.ID) {
	at, in, found := d.locate(key)
	if !found {
		return
	}
	d.size--
	old := d.pages[at]
	if len(old.keys) == 1 {
		d.swap(at)
		return
	}
	d.swap(at, &page[V]{
		slices.Delete(slices.Clone(old.keys), in, in+1),
		slices.Delete(slices.Clone(old.vals), in, in+1),
	})
}

// all iterates over the entries in the order of the keys.
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
