package candidate

import (
	"maps"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// walk goes through the candidates of one host, the last item changing fastest. It never enters a branch without a
// candidate: each step is taken only if the parts say that the rest can still be placed.
type walk struct {
	host    *host
	at      []int  // by item: the position in its domain, or -1
	depth   int    // how many items are placed
	partOf  []part // by item
	started bool
	ids     []provider.ID // by spot; the lists of the mappings are cut from it
	takes   []Take
}

func newWalk(h *host) *walk {
	w := &walk{host: h, at: make([]int, len(h.items)), partOf: make([]part, len(h.items))}
	for i := range h.plan.parts {
		for _, item := range h.plan.parts[i].items {
			w.partOf[item] = h.parts[i]
		}
	}
	return w
}

// begin starts at the first candidate of the host.
func (w *walk) begin() {
	w.depth, w.started, w.ids = 0, false, nil
}

// next goes to the next placement of all items.
func (w *walk) next() bool {
	if w.started {
		w.back()
	} else {
		w.started = true
		w.at[0] = -1
	}
	for w.depth >= 0 {
		if !w.advance() {
			w.back()
			continue
		}
		w.depth++
		if w.depth == len(w.at) {
			return true
		}
		w.at[w.depth] = -1
	}
	return false
}

// advance places the item at this depth on the next spot that leaves a solution.
func (w *walk) advance() bool {
	i := w.depth
	domain := w.host.domains[w.host.items[i].kind]
	for w.at[i]++; w.at[i] < len(domain); w.at[i]++ {
		if at := domain[w.at[i]]; (!w.host.flat || w.alone(at)) && w.partOf[i].force(i, int(at)) {
			return true
		}
	}
	return false
}

// alone says whether the next item, on this spot, leaves all items placed in the tree of the spot on one provider: Ask.Flat.
func (w *walk) alone(at int32) bool {
	h := w.host
	if len(h.items[w.depth].alone) == 0 {
		return true
	}
	for i := range w.depth {
		if o := w.spot(i); o != int(at) && len(h.items[i].alone) > 0 && h.spots[o].Tree == h.spots[at].Tree {
			return false
		}
	}
	return true
}

// back takes the last item up again.
func (w *walk) back() {
	if w.depth--; w.depth >= 0 {
		w.partOf[w.depth].release(w.depth, w.spot(w.depth))
	}
}

func (w *walk) spot(i int) int { return int(w.host.domains[w.host.items[i].kind][w.at[i]]) }

// first says whether the candidate is met here first: a candidate of sharing providers alone may be had from several
// trees, and counts for the first of them.
func (w *walk) first() bool {
	h := w.host
	var lead *spot
	for i := range h.items {
		s := &h.spots[w.spot(i)]
		if !s.Node().Shares() {
			return true
		}
		if lead == nil || s.foreign {
			lead = s
		}
	}
	earlier := func(t *index.Tree) bool { return t.Root < h.tree.Root && h.anchors(t) && w.reaches(t) }
	if earlier(lead.Tree) {
		return false
	}
	for _, a := range lead.Node().Aggregates {
		for t := range h.snapshot.Joined(a).All() {
			if t.Root >= h.tree.Root {
				break
			}
			if earlier(t) {
				return false
			}
		}
	}
	return true
}

// reaches says whether the candidate, which is of sharing providers alone, could be had from another tree too.
func (w *walk) reaches(t *index.Tree) bool {
	for i := range w.host.items {
		place := w.host.spots[w.spot(i)].Place
		k := &w.host.kinds[w.host.items[i].kind]
		if place.Tree == t {
			if k.spread && !k.suitsTree(place) {
				return false
			}
			continue
		}
		if !connected(place.Node(), t) || k.spread && (k.inTree || !k.suits(place) || inAny(t.Top(), k.without)) {
			return false
		}
	}
	return true
}

// placed tells the placement.
func (w *walk) placed() Placed {
	h := w.host
	w.takes = w.takes[:0]
	for i := range h.items {
		at := w.spot(i)
		w.takes = append(w.takes, Take{h.spots[at].Place, at, i, h.items[i].suffix, h.items[i].alone})
	}
	return Placed{h.tree.Root, w.takes}
}

// candidate puts the placement into words.
func (w *walk) candidate() Candidate {
	h := w.host
	if w.ids == nil {
		w.ids = make([]provider.ID, len(h.spots))
		for at := range h.spots {
			w.ids[at] = h.spots[at].Node().ID
		}
	}
	c := Candidate{
		Root:       h.tree.Root,
		Allocation: make(resource.Allocation, len(h.items)),
		Mappings:   make(map[string][]provider.ID, len(h.items)),
	}
	mixed := map[int]resource.Amounts{} // by spot: what several items take together
	for i, item := range h.items {
		at := w.spot(i)
		id := w.ids[at]
		if list, any := c.Mappings[item.suffix]; !any {
			c.Mappings[item.suffix] = w.ids[at : at+1 : at+1]
		} else if !slices.Contains(list, id) {
			c.Mappings[item.suffix] = append(list, id)
		}
		if len(item.alone) == 0 {
			continue
		}
		held, several := c.Allocation[id]
		if several && mixed[at] == nil {
			mixed[at] = maps.Clone(held)
			c.Allocation[id] = mixed[at]
		}
		if !several {
			c.Allocation[id] = item.alone
			continue
		}
		for class, n := range item.alone {
			mixed[at][class] += n
		}
	}
	return c
}
