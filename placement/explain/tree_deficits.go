package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// supply is units of a class: free, for consumers in all, and how many more there would be if nothing were reserved.
type supply struct{ free, of, reserved int }

func (s supply) plus(o supply, n int) supply {
	return supply{
		match.Plus(s.free, match.Times(o.free, n)),
		match.Plus(s.of, match.Times(o.of, n)),
		match.Plus(s.reserved, match.Times(o.reserved, n)),
	}
}

// view is one tree with the providers that could serve it.
type view struct {
	tree   *index.Tree
	around []index.Place
}

// admittedSupply adds up what the providers that admit some of these item classes have of a class that they need. It
// calls each, if not nil, with every such provider.
func (v view) admittedSupply(q *match.Query, itemClasses []int, need match.Need,
	each func(index.Place, *index.Inventory)) (sum supply) {
	for _, at := range v.around {
		st := at.Node().Inventory(need.Number)
		if st == nil || !st.Offered() {
			continue
		}
		admits := func(i int) bool {
			c := &q.ItemClasses[i]
			return c.Amount(need.Class) > 0 && (len(c.Needs) == 1 || c.Offered(at.Node())) && c.Admits(v.tree, at)
		}
		if !slices.ContainsFunc(itemClasses, admits) {
			continue
		}
		capacity := max(st.Inventory.Capacity(), 0)
		here := supply{free: max(capacity-st.Used, 0), of: capacity}
		if st.Inventory.Reserved != 0 || capacity == 0 {
			here.reserved = unreserved(st.Inventory) - capacity
		}
		sum = sum.plus(here, 1)
		if each != nil {
			each(at, st)
		}
	}
	return sum
}

// unreserved returns the capacity as if nothing were reserved.
func unreserved(inv resource.Inventory) int {
	inv.Reserved = 0
	return inv.Capacity()
}

// itemShortfall returns how much a tree lacks for all items of a class, as a share of what they need, and what it has:
// in all, or else what its best provider lacks for one item.
func (v view) itemShortfall(q *match.Query, itemClass int) (shortfall float64, has supply) {
	c := &q.ItemClasses[itemClass]
	if len(c.Needs) == 1 {
		has = v.admittedSupply(q, []int{itemClass}, c.Needs[0], nil)
		if asks := match.Times(c.Needs[0].Amount, len(c.Items)); has.free < asks {
			return share(asks-has.free, asks), has
		}
	}
	shortfall = -1
	for _, at := range v.around {
		here := providerShortfall(c, at.Node())
		if here >= 0 && (shortfall < 0 || here < shortfall) && c.Admits(v.tree, at) {
			shortfall = here
		}
	}
	return shortfall, has
}

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

// providerShortfall returns how much a provider lacks for one item, as a share of what it needs; -1 if the provider has
// no inventory of some class.
func providerShortfall(c *match.ItemClass, n *index.Node) (shortfall float64) {
	for _, need := range c.Needs {
		st := n.Inventory(need.Number)
		if st == nil || !st.Offered() {
			return -1
		}
		if left := max(st.Inventory.Capacity()-st.Used, 0); left < need.Amount {
			shortfall += share(need.Amount-left, need.Amount)
		}
	}
	return shortfall
}

// sectionShortfall returns how much a tree lacks of the classes of a section, as shares of what is asked.
func (v view) sectionShortfall(q *match.Query, s *match.Section) (shortfall float64) {
	for _, class := range s.Classes {
		asked, free := 0, 0
		for _, i := range s.ItemClasses {
			asked += q.ItemClasses[i].Amount(class) * len(q.ItemClasses[i].Items)
		}
		for _, at := range v.around {
			serves := func(i int) bool {
				c := &q.ItemClasses[i]
				return c.Amount(class) > 0 && c.HasRoom(at.Node()) && c.Admits(v.tree, at)
			}
			st := at.Node().Inventory(q.Classes[class])
			if st != nil && st.Room > 0 && slices.ContainsFunc(s.ItemClasses, serves) {
				free += st.Room
			}
		}
		shortfall += share(max(asked-free, 0), asked)
	}
	return shortfall
}

// unqualified returns why no provider with inventory of what an item needs meets its conditions: it lacks something,
// or it has something that is forbidden.
func (v view) unqualified(c *match.ItemClass) Deficit {
	d := Deficit{Class: c.Resource, Cause: Excluded, Asks: max(c.Weight(), 1), Note: conditionsOf(c)}
	allowed := *c
	allowed.Forbidden, allowed.NotMemberOf = nil, nil
	serves := func(at index.Place) bool { return allowed.Offered(at.Node()) && allowed.Admits(v.tree, at) }
	if len(c.Forbidden)+len(c.NotMemberOf) > 0 && slices.ContainsFunc(v.around, serves) {
		d.Cause = Forbidden
	}
	if d.Class == "" {
		d.Note = "no provider " + d.Note
	}
	return d
}

// unfree returns what a tree lacks for one item class: units in all, or else what its best provider lacks for one item.
func (v view) unfree(q *match.Query, itemClass int) []Deficit {
	c := &q.ItemClasses[itemClass]
	if len(c.Needs) == 1 {
		if d := v.compare(q, []int{itemClass}, c.Needs[0]); d.Free < d.Asks {
			return []Deficit{d}
		}
	}
	var best []Deficit
	for _, at := range v.around {
		if !c.Offered(at.Node()) || !c.Admits(v.tree, at) {
			continue
		}
		var here []Deficit
		for _, need := range c.Needs {
			if st := at.Node().Inventory(need.Number); !st.Fits(need.Amount) {
				here = append(here, shortage(q.Names[need.Class], need.Amount, at.Node().ID, st))
			}
		}
		if best == nil || sumOf(here) < sumOf(best) {
			best = here
		}
	}
	return best
}

// sumOf adds up what is lacking, as shares of what is asked.
func sumOf(deficits []Deficit) float64 {
	sum := 0.0
	for _, d := range deficits {
		sum += share(max(d.Asks-d.Free, 0), d.Asks)
	}
	return sum
}

// shortage returns what one provider lacks of an amount.
func shortage(class resource.Class, amount int, id provider.ID, st *index.Inventory) Deficit {
	inv := st.Inventory
	left := max(inv.Capacity()-st.Used, 0)
	d := Deficit{Class: class, Asks: amount, Free: left, Of: inv.Capacity()}
	if st.Used > 0 {
		d.Taken = []provider.ID{id}
	}
	if amount <= left { // so the inventory does not allow the amount
		d.Cause = Shape
		d.Note, _ = strings.CutPrefix(inv.Refuse(st.Used, st.Used, amount), fmt.Sprintf("asks %d, ", amount))
		return d
	}
	d.Cause = causeOf(amount, inv.Capacity(), unreserved(inv))
	if inv.Reserved > 0 {
		d.Note = fmt.Sprintf("%d reserved", inv.Reserved)
	}
	return d
}

// causeOf returns why there is less free than asked.
func causeOf(asks, capacity, unreserved int) Cause {
	switch {
	case asks <= capacity:
		return Held
	case asks <= unreserved:
		return Reserved
	}
	return Small
}

// contended returns what a tree lacks for all items of some item classes at once: the classes of which there is too
// little; or all of them, if there is enough of each.
func (v view) contended(q *match.Query, itemClasses []int, note string) []Deficit {
	var short, enough []Deficit
	seen := map[int]bool{}
	for _, i := range itemClasses {
		for _, need := range q.ItemClasses[i].Needs {
			if seen[need.Class] {
				continue
			}
			seen[need.Class] = true
			d := v.compare(q, itemClasses, need)
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
	return []Deficit{{Class: "", Cause: Contended, Asks: len(itemClasses), Note: note}}
}

// mostTaken is how many providers a deficit names.
const mostTaken = 3

// compare compares what item classes need of a class with what the providers that admit them have.
func (v view) compare(q *match.Query, itemClasses []int, need match.Need) Deficit {
	d := Deficit{Class: q.Names[need.Class], Asks: askedOf(q, itemClasses, need.Class)}
	has := v.admittedSupply(q, itemClasses, need, func(at index.Place, st *index.Inventory) {
		if st.Used > 0 && len(d.Taken) < mostTaken {
			d.Taken = append(d.Taken, at.Node().ID)
		}
	})
	d.Free, d.Of, d.Cause = has.free, has.of, causeOf(d.Asks, has.of, match.Plus(has.of, has.reserved))
	if has.reserved > 0 {
		d.Note = fmt.Sprintf("%d reserved", has.reserved)
	}
	return d
}

// askedOf returns how much of a class all items of some item classes need.
func askedOf(q *match.Query, itemClasses []int, class int) int {
	n := 0
	for _, i := range itemClasses {
		c := &q.ItemClasses[i]
		n = match.Plus(n, match.Times(c.Amount(class), len(c.Items)))
	}
	return n
}
