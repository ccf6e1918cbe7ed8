package candidate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// nearest tells of the hosts that came furthest those that lack least; of equal ones, the first by ID.
func (x *explainer) nearest() []Miss {
	if len(x.order) == 0 {
		return x.bystanders()
	}
	type near struct {
		tree  *index.Tree
		class int
	}
	var best []near
	for _, at := range x.order {
		st := &x.classes[at]
		if st.stage < x.furthest() || len(best) >= mostMisses && st.lack > x.classes[best[mostMisses-1].class].lack {
			break
		}
		if len(best) == mostMisses && st.lack == x.classes[best[mostMisses-1].class].lack && st.trees[0].Root > best[mostMisses-1].tree.Root {
			continue
		}
		for _, t := range st.trees[:min(st.count, mostMisses)] {
			best = append(best, near{t, at})
		}
		slices.SortStableFunc(best, func(a, b near) int {
			return cmp.Or(cmp.Compare(x.classes[a.class].lack, x.classes[b.class].lack), cmp.Compare(a.tree.Root, b.tree.Root))
		})
		best = best[:min(len(best), mostMisses)]
	}
	out := make([]Miss, len(best))
	for i, b := range best {
		out[i] = miss(b.tree, x.deficits(b.tree, &x.classes[b.class]))
	}
	return out
}

func miss(t *index.Tree, deficits []Deficit) Miss {
	if top := t.Top(); top != nil {
		return Miss{t.Root, top.Name, deficits}
	}
	return Miss{t.Root, string(t.Root), deficits}
}

// bystanders are the first few of the hosts that would do best if it were not for the one clause that none meets.
func (x *explainer) bystanders() []Miss {
	var best narrowing
	for _, n := range x.narrowings() {
		if n.size > 0 && (best.size == 0 || n.size < best.size) {
			best = n
		}
	}
	by, p := x.narrow.by, x.plan
	var d Deficit
	switch {
	case by.class >= 0:
		d = Deficit{Class: p.names[by.class], Cause: Absent, Asks: p.wanted(by.class)}
	case by.kind >= 0 && p.kinds[by.kind].class != "":
		k := &p.kinds[by.kind]
		d = Deficit{Class: k.class, Cause: Excluded, Asks: multiple(k.weight(), len(k.items)), Note: "with " + x.narrow.traitName(p)}
	default:
		d = Deficit{Cause: Excluded, Asks: 1, Note: "its root is not one " + rootWords(x.pieces.ask)}
	}
	var out []Miss
	for t := range best.trees {
		if out = append(out, miss(t, []Deficit{d})); len(out) == mostMisses {
			break
		}
	}
	return out
}

// wanted is how much of a class all kinds ask together.
func (p *plan) wanted(class int) int {
	n := 0
	for i := range p.kinds {
		n = plus(n, multiple(p.kinds[i].amount(class), len(p.kinds[i].items)))
	}
	return n
}

// plus adds two numbers that are not negative. A query may ask for any number of units, so that sums end at the largest int.
func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// multiple is n times a number, neither negative, with the same end as plus.
func multiple(a, n int) int {
	if n > 0 && a > math.MaxInt/n {
		return math.MaxInt
	}
	return a * n
}

// deficits says what a host lacks at the stage it fails.
func (x *explainer) deficits(t *index.Tree, st *standing) []Deficit {
	note := ""
	switch s := x.stages[st.stage]; s.rule {
	case rooted:
		return []Deficit{{Cause: Excluded, Asks: 1, Note: "its root is not one " + rootWords(x.pieces.ask)}}
	case offered:
		return []Deficit{{Class: x.plan.names[s.at], Cause: Absent, Asks: x.plan.wanted(s.at)}}
	case qualified:
		return []Deficit{x.unqualified(t, &x.plan.kinds[s.at])}
	case free:
		return x.short(t, s.at)
	case isolated:
		note = "group_policy=isolate"
	case subtree:
		note = "same_subtree"
	}
	return x.crowded(t, st.by, st.stuck, note)
}

// unqualified tells whether providers with what a kind asks lack something, or have something that the kind forbids.
func (x *explainer) unqualified(t *index.Tree, k *kind) Deficit {
	d := Deficit{Class: k.class, Cause: Excluded, Asks: max(k.weight(), 1), Note: k.qualities()}
	welcome := *k
	welcome.banned, welcome.without = nil, nil
	able := func(at index.Place) bool { return k.offered(at) && welcome.admits(t, at) }
	if len(k.banned)+len(k.without) > 0 && slices.ContainsFunc(x.around(t), able) {
		d.Cause = Forbidden
	}
	if d.Class == "" {
		d.Note = "no provider " + d.Note
	}
	return d
}

// short says what a host lacks for one kind: units in all, or else what its best provider lacks for one item.
func (x *explainer) short(t *index.Tree, kind int) []Deficit {
	k, around := &x.plan.kinds[kind], x.around(t)
	if len(k.needs) == 1 {
		if d := x.plan.compare(t, around, []int{kind}, k.needs[0]); d.Free < d.Asks {
			d.Class = k.class
			return []Deficit{d}
		}
	}
	var best []Deficit
	for _, at := range around {
		if !k.offered(at) || !k.admits(t, at) {
			continue
		}
		var here []Deficit
		for i, class := range k.amounts.Sorted() {
			if st := at.Node().Stock(k.needs[i].number); !st.Fits(k.needs[i].amount) {
				here = append(here, shortage(class, k.needs[i].amount, at, k.needs[i].number))
			}
		}
		if best == nil || lack(here) < lack(best) {
			best = here
		}
	}
	return best
}

// lack weighs deficits: the sum of the parts that are lacking.
func lack(deficits []Deficit) float64 {
	sum := 0.0
	for _, d := range deficits {
		sum += float64(max(d.Asks-d.Free, 0)) / float64(max(d.Asks, 1))
	}
	return sum
}

// shortage is what one provider lacks of an amount.
func shortage(class resource.Class, amount int, at index.Place, number index.No) Deficit {
	st := at.Node().Stock(number)
	inv := st.Inventory
	left := max(inv.Capacity()-st.Used, 0)
	d := Deficit{Class: class, Asks: amount, Free: left, Of: inv.Capacity()}
	if st.Used > 0 {
		d.Taken = []provider.ID{at.Node().ID}
	}
	switch {
	case amount <= left: // so it is the shape
		d.Cause = Shape
		d.Note, _ = strings.CutPrefix(inv.Refuse(st.Used, amount), fmt.Sprintf("asks %d, ", amount))
	case amount <= inv.Capacity():
		d.Cause = Held
	case amount <= unreserved(inv):
		d.Cause = Reserved
	default:
		d.Cause = Small
	}
	if inv.Reserved > 0 && d.Cause != Shape {
		d.Note = fmt.Sprintf("%d reserved", inv.Reserved)
	}
	return d
}

// crowded says what a host lacks for all items of some kinds at once: the classes of which there is too little; or
// all of them, when it is the way they lie that is wrong.
func (x *explainer) crowded(t *index.Tree, p *plan, kinds []int, note string) []Deficit {
	var short, enough []Deficit
	around := x.around(t)
	seen := map[int]bool{}
	for _, i := range kinds {
		for j, n := range p.kinds[i].needs {
			if seen[n.class] {
				continue
			}
			seen[n.class] = true
			d := p.compare(t, around, kinds, n)
			d.Class = p.kinds[i].amounts.Sorted()[j]
			if d.Free < d.Asks {
				short = append(short, d)
			} else {
				d.Cause, d.Note = Contended, note
				enough = append(enough, d)
			}
		}
	}
	switch {
	case short != nil:
		return short
	case enough != nil:
		return enough
	}
	return []Deficit{{Class: "", Cause: Contended, Asks: len(kinds), Note: note}}
}

// mostTaken is how many providers a deficit names.
const mostTaken = 3

// tally adds up what the providers that admit these kinds have of a class that they ask.
func (p *plan) tally(t *index.Tree, around []index.Place, kinds []int, of need, each func(at index.Place, st *index.Stock)) (sum supply) {
	for _, at := range around {
		st := at.Node().Stock(of.number)
		if st == nil || !st.Offered() {
			continue
		}
		for _, i := range kinds {
			if k := &p.kinds[i]; k.amount(of.class) > 0 && (len(k.needs) == 1 || k.offered(at)) && k.admits(t, at) {
				capacity := max(st.Inventory.Capacity(), 0)
				sum.free = plus(sum.free, max(capacity-st.Used, 0))
				sum.of = plus(sum.of, capacity)
				if st.Inventory.Reserved != 0 || capacity == 0 {
					sum.reserved = plus(sum.reserved, unreserved(st.Inventory)-capacity)
				}
				if each != nil {
					each(at, st)
				}
				break
			}
		}
	}
	return sum
}

// unreserved is the capacity if nothing were reserved.
func unreserved(inv resource.Inventory) int {
	inv.Reserved = 0
	return inv.Capacity()
}

// compare holds what kinds ask of a class against what the providers that admit them have.
func (p *plan) compare(t *index.Tree, around []index.Place, kinds []int, of need) Deficit {
	var d Deficit
	for _, i := range kinds {
		d.Asks = plus(d.Asks, multiple(p.kinds[i].amount(of.class), len(p.kinds[i].items)))
	}
	sum := p.tally(t, around, kinds, of, func(at index.Place, st *index.Stock) {
		if st.Used > 0 && len(d.Taken) < mostTaken {
			if d.Taken == nil {
				d.Taken = make([]provider.ID, 0, mostTaken)
			}
			d.Taken = append(d.Taken, at.Node().ID)
		}
	})
	d.Free, d.Of = sum.free, sum.of
	switch {
	case d.Asks <= d.Of:
		d.Cause = Held
	case d.Asks <= plus(d.Of, sum.reserved):
		d.Cause = Reserved
	default:
		d.Cause = Small
	}
	if sum.reserved > 0 {
		d.Note = fmt.Sprintf("%d reserved", sum.reserved)
	}
	return d
}

// gauge notes how much a host lacks of what a kind asks that is not free, and what it has of it: in all, or else what its best
// provider lacks for one item. It says whether there is any provider that would do if it had room.
func (x *explainer) gauge(st *standing, kind int, around []index.Place) bool {
	t, k := st.trees[0], &x.plan.kinds[kind]
	st.supply = supply{}
	if len(k.needs) == 1 {
		any := false
		st.supply = x.plan.tally(t, around, []int{kind}, k.needs[0], func(index.Place, *index.Stock) { any = true })
		if asks := multiple(k.needs[0].amount, len(k.items)); st.free < asks {
			st.lack = float64(asks-st.free) / float64(asks)
			return any
		}
	}
	st.lack = -1
	for _, at := range around {
		if here := k.gap(at.Node()); here >= 0 && (st.lack < 0 || here < st.lack) && k.admits(t, at) {
			st.lack = here
		}
	}
	return st.lack >= 0
}

// gap is how much a provider lacks for one item, in parts of what is asked; -1 when it has nothing of some class.
func (k *kind) gap(n *index.Node) (lack float64) {
	for _, need := range k.needs {
		st := n.Stock(need.number)
		if st == nil || !st.Offered() {
			return -1
		}
		if left := max(st.Inventory.Capacity()-st.Used, 0); left < need.amount {
			lack += float64(need.amount-left) / float64(need.amount)
		}
	}
	return lack
}
