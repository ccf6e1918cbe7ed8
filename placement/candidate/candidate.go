// Package candidate answers what could be had: the candidates for an ask, lazily and exactly, or why there are none.
//
// The candidates are those of OpenStack Placement at microversion 1.39, as a set: no more, no fewer. Each class of
// the unsuffixed group comes from one provider of the tree, or from a sharing provider that has an aggregate in
// common with any provider of the tree; its providers have the required traits between them, and none of the
// forbidden ones on any of them; an aggregate of the root holds for the whole tree. A suffixed group comes from one
// provider, which by itself has all that the group names. What several groups take from one provider must fit
// together, also within max_unit.
//
// Some rules are less known, and honoured because callers may have come to depend on them:
//   - A group without resources needs a required trait or a member_of to be met at all, and in_tree does not bind it.
//   - in_tree keeps an unsuffixed group from sharing providers of other trees, but not a suffixed group that
//     a sharing provider meets from being combined with another tree.
//   - A sharing provider serves an unsuffixed group with member_of in other trees only if it is a member itself.
//
// In two cases the original's answer depends on chance (the order of its database's internal numbers), and this
// package gives what the rules say. An unsuffixed group met by sharing providers alone is combined with the suffixed
// groups of every tree they serve, not of one of them. Where the unsuffixed group and a suffixed one take the same
// class from one provider under a policy other than none, amounts are added once.
//
// How it works. The ask is compiled once (plan): equal groups become one kind with a count, and kinds that cannot get
// in each other's way become sections of their own. For each tree (host) the providers that could serve each kind are
// found. A section in which a provider takes a fixed number of items is decided by a flow, that is by counting; the
// rest (different amounts of one class, same_subtree, traits held between providers) by a search that counts before
// it tries. Both keep a witness, one full placement, while the walk enumerates: it goes only where the rest can still
// be placed, so that it never searches in vain, and nine groups on eight devices are refused without trying one. Trees of one
// shape (index.Shape) have the same to give: as long as nothing is found, one of them is looked at.
//
// Packing unequal amounts is a hard problem, so somebody can always make up an ask that takes for ever. What a search remembers
// is bounded, and Until gives it up; what was given up is never to be told as an empty answer.
//
// An explanation costs about what the question costs. The index narrows first (how many trees have the class or trait that
// fewest have), each tree left is judged once, which also gives clauses that it cannot meet together (its core), and the
// smallest contradiction is looked for within the union of these cores: a clause that no core names is never tried. Nor is one of which
// it showed on the way that some host meets all the others, or of which the index knows that nobody has room for what it asks.
package candidate

import (
	"iter"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidate is one way to meet a whole ask. Its Amounts and lists are shared between candidates: read, do not write.
type Candidate struct {
	Root       provider.ID              // the anchor: the root of the tree, also where all providers are sharing ones
	Allocation resource.Allocation      // what a claim would hold
	Mappings   map[string][]provider.ID // suffix of the group → the providers that meet it
}

// Placed is one way to meet a whole ask, like a Candidate, but not yet put into words. Takes is overwritten by the next one.
type Placed struct {
	Root  provider.ID // as in Candidate
	Takes []Take      // in the order of the ask's groups; the unsuffixed group has one for each of its classes
}

// Clone is a copy that stays.
func (p Placed) Clone() Placed { return Placed{p.Root, slices.Clone(p.Takes)} }

// Take is what one provider gives to one group, or to one class of the unsuffixed group.
type Take struct {
	index.Place
	Spot    int              // a small number: the same within a Placed means the same provider
	Item    int              // its position in Takes, the same in every Placed for an ask
	Suffix  string           // of the group
	Amounts resource.Amounts // shared: read, do not write; empty for a group without resources
}

// All gives every candidate for the ask, each once, host by host in the order of the roots' IDs, at most ask.Limit
// (0: no limit). Nothing is computed before it is asked for, and nothing is kept.
func All(s *index.Snapshot, ask resource.Ask) iter.Seq[Candidate] { return Until(nil).All(s, ask) }

// Spread gives the same candidates as All, but in turn: one from each host, then a second from each, and so on. It keeps
// the state of each host that it has begun with.
func Spread(s *index.Snapshot, ask resource.Ask) iter.Seq[Candidate] {
	return Until(nil).Spread(s, ask)
}

// Until is a search that is given up soon after the function says true, also while it finds nothing; nil never does.
// What it gave before are candidates, but there may be more.
type Until func() bool

// All is the function All, given up by Until.
func (stop Until) All(s *index.Snapshot, ask resource.Ask) iter.Seq[Candidate] {
	return all(s, ask, stop, (*walk).candidate)
}

// AllPlaced gives what All gives, not yet put into words.
func (stop Until) AllPlaced(s *index.Snapshot, ask resource.Ask) iter.Seq[Placed] {
	return all(s, ask, stop, (*walk).placed)
}

func all[C any](s *index.Snapshot, ask resource.Ask, stop Until, say func(*walk) C) iter.Seq[C] {
	return func(yield func(C) bool) {
		p := compile(s, ask, stop)
		h := newHost(p)
		w := newWalk(h)
		tapes, given := newTapes(p), 0
		give := func(w *walk) bool {
			given++
			return yield(say(w)) && given != p.limit
		}
		for t := range p.trees() {
			if p.stopped() {
				return
			}
			if known := tapes.of(t); known != nil {
				if !tapes.play(known, t, give) {
					return
				}
				continue
			}
			if !h.try(t) {
				continue
			}
			tapes.begin(t)
			for w.begin(); w.next(); {
				if !w.first() {
					if p.stopped() {
						return
					}
					continue
				}
				tapes.record(w)
				if !give(w) {
					return
				}
			}
			tapes.end(w)
		}
	}
}

// Spread is the function Spread, given up by Until.
func (stop Until) Spread(s *index.Snapshot, ask resource.Ask) iter.Seq[Candidate] {
	return spread(s, ask, stop, (*walk).candidate)
}

// SpreadPlaced gives what Spread gives, not yet put into words.
func (stop Until) SpreadPlaced(s *index.Snapshot, ask resource.Ask) iter.Seq[Placed] {
	return spread(s, ask, stop, (*walk).placed)
}

func spread[C any](s *index.Snapshot, ask resource.Ask, stop Until, say func(*walk) C) iter.Seq[C] {
	return func(yield func(C) bool) {
		p := compile(s, ask, stop)
		given := 0
		give := func(w *walk) (more, wanted bool) {
			for w.next() {
				if w.first() {
					given++
					return true, yield(say(w)) && given != p.limit
				}
				if p.stopped() {
					break
				}
			}
			return false, !p.stopped()
		}
		var waiting []*walk
		for t := range p.trees() {
			if p.stopped() {
				return
			}
			h := newHost(p)
			if !h.try(t) {
				continue
			}
			w := newWalk(h)
			w.begin()
			more, wanted := give(w)
			if !wanted {
				return
			}
			if more {
				waiting = append(waiting, w)
			}
		}
		for len(waiting) > 0 {
			left := waiting[:0]
			for _, w := range waiting {
				more, wanted := give(w)
				if !wanted {
					return
				}
				if more {
					left = append(left, w)
				}
			}
			waiting = left
		}
	}
}

// stopped says whether the search is given up. It asks now and then: at the first time, and at each 64th.
func (p *plan) stopped() bool {
	if p.stop != nil && !p.over && p.asked%64 == 0 {
		p.over = p.stop()
	}
	p.asked++
	return p.over
}

// trees walks the trees that can be anchors, as far as the index tells without looking into them.
func (p *plan) trees() iter.Seq[*index.Tree] {
	if p.nothing != "" || len(p.items) == 0 {
		return func(func(*index.Tree) bool) {}
	}
	best, _ := p.narrowest(false)
	return best
}

// fewTrees is up to how many trees are counted that have room.
const fewTrees = 64

// narrowest is the fewest trees that can be anchors, as far as the index tells, and how many they are. It looks at what they have
// room for too, if they are worth that; then their order is any.
func (p *plan) narrowest(room bool) (best iter.Seq[*index.Tree], few int) {
	best, few = p.snapshot.Trees(), p.snapshot.Len()
	narrow := func(set index.Set) {
		if set.Len() < few {
			best, few = set.All(), set.Len()
		}
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		if p.lendable(i) {
			continue
		}
		if k.inTree && len(k.needs) > 0 {
			return func(yield func(*index.Tree) bool) { yield(p.snapshot.Lookup(k.tree)) }, 1
		}
		for _, n := range k.needs {
			narrow(p.snapshot.Offering(n.number))
			if !room {
				continue
			}
			most := min(few, fewTrees+1)
			if span := p.snapshot.Roomy(n.number, n.amount); span.Len(most) < most {
				best, few = span.All(), span.Len(most)
			}
		}
		for _, set := range k.required {
			if len(set) == 1 {
				narrow(p.snapshot.Having(set[0]))
			}
		}
	}
	for _, trait := range p.required {
		narrow(p.snapshot.Having(trait))
	}
	return best, few
}

// lendable says whether a sharing provider can serve the kind in other trees.
func (p *plan) lendable(kind int) bool {
	for _, s := range p.sharers {
		for _, k := range s.kinds {
			if k == kind {
				return true
			}
		}
	}
	return false
}
