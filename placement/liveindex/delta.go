package liveindex

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Delta is the effect of a write on one provider. It is applied to the index without reading the tree again, if
// the index has the provider in the state that the write found and the tree was not read since the write began.
// Otherwise the tree is read.
type Delta struct {
	Root   provider.ID
	ID     provider.ID
	Parent provider.ID        // of a new provider; empty: a root
	Before int                // the generation before the write; -1: the provider is new
	After  int                // the generation after the write
	Reads  uint64             // Index.Reads when the write began
	Change func(r *index.Row) // makes the change, except for the generation
}

// applicable reports whether the delta can be applied to a snapshot whose tree was read at readAt.
func (p Delta) applicable(s *index.Snapshot, readAt uint64) bool {
	if p.Reads < readAt {
		return false
	}
	place, known := s.Find(p.ID)
	if p.Before >= 0 {
		return known && place.Tree.Root == p.Root && place.Node().Generation == p.Before
	}
	if known {
		return false
	}
	if p.Parent == "" {
		return s.Lookup(p.Root) == nil
	}
	over, there := s.Find(p.Parent)
	return there && over.Tree.Root == p.Root
}

// apply returns the snapshot with the delta.
func (p Delta) apply(s *index.Snapshot) *index.Snapshot {
	r, known := s.Row(p.ID)
	if !known {
		r.Provider = provider.Provider{ID: p.ID, Parent: p.Parent, Root: p.Root}
	}
	r.Generation = p.After
	p.Change(&r)
	return s.WithRow(r)
}

// UsageDelta is the effect of a write on the usage of providers. It is added to what the index has, in any order with
// those of other writes, unless the tree was read since the write began: then the index may have it already, and the
// usage is read. The index counts the generations that this process has raised; a provider that another process has
// changed has a higher one in the database, and the Syncer reads it.
type UsageDelta struct {
	Roots []provider.ID // of the providers
	Added map[provider.ID]store.UsageChange
	Reads uint64 // Index.Reads when the write began
}

// usageSum is the sum of usage deltas.
type usageSum struct {
	amounts map[provider.ID]resource.Amounts
	raised  map[provider.ID]int
}

func (u usageSum) add(id provider.ID, change store.UsageChange) {
	if u.amounts[id] == nil {
		u.amounts[id] = make(resource.Amounts, len(change.Amounts))
	}
	for class, n := range change.Amounts {
		u.amounts[id][class] += n
	}
	u.raised[id] += change.Raised
}

// addUsage adds the usage deltas of a batch. It adds providers whose usage must be read to b.used, and the trees that
// must be read to b.roots: those in which the index does not have a provider.
func (l *Index) addUsage(s *index.Snapshot, b *batch) *index.Snapshot {
	sum := usageSum{map[provider.ID]resource.Amounts{}, map[provider.ID]int{}}
	for _, d := range b.usage {
		for id, change := range d.Added {
			root := s.RootOf(id)
			switch {
			case !slices.Contains(d.Roots, root): // another process created or moved it
				for _, root := range d.Roots {
					b.roots[root] = true
				}
			case d.Reads < l.readAt(root):
				b.used[id] = true
			default:
				sum.add(id, change)
			}
		}
	}
	if len(sum.amounts) == 0 {
		return s
	}
	s, left := s.AddUsage(sum.amounts, sum.raised)
	for _, id := range left { // a removal of what another process has claimed
		b.used[id] = true
	}
	return s
}
