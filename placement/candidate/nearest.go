package candidate

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// deficits says what a host lacks at the stage it fails.
func (x *explainer) deficits(t *index.Tree, s stage) []Deficit {
	switch s.rule {
	case rooted:
		return []Deficit{{Cause: Excluded, Asks: 1, Note: "its root is not one " + rootWords(x.ask)}}
	case offered:
		name := x.plan.names[s.at]
		asks := 0
		for i := range x.plan.kinds {
			asks += x.plan.kinds[i].amounts[name] * len(x.plan.kinds[i].items)
		}
		return []Deficit{{Class: name, Cause: Absent, Asks: asks}}
	case qualified:
		k := &x.plan.kinds[s.at]
		d := Deficit{Cause: Excluded, Asks: max(k.weight(), 1), Note: k.qualities()}
		if d.Class = k.class(); d.Class == "" {
			d.Note = "no provider " + d.Note
		}
		return []Deficit{d}
	case free:
		return x.short(t, s.at)
	case together:
		return x.crowded(t, x.loose.plan, x.loose.plan.parts[s.at].kinds, "")
	}
	x.host.fill(t)
	return x.crowded(t, x.plan, x.plan.parts[x.host.stuck].kinds, s.note)
}

// short says what a host lacks for one kind: units in all, or else what its best provider lacks for one item.
func (x *explainer) short(t *index.Tree, kind int) []Deficit {
	k, around := &x.plan.kinds[kind], x.around(t)
	if len(k.needs) == 1 {
		if d, _ := x.plan.supply(t, around, []int{kind}, k.needs[0]); d.Free < d.Asks {
			d.Class = k.class()
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
				here = append(here, shortage(class, k.needs[i].amount, st))
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

// shortage is what one stock lacks of an amount.
func shortage(class resource.Class, amount int, st *index.Stock) Deficit {
	inv := st.Inventory
	left := max(inv.Capacity()-st.Used, 0)
	d := Deficit{Class: class, Asks: amount, Free: left, Of: inv.Capacity()}
	switch {
	case amount <= left: // so it is the shape
		d.Cause = Shape
		d.Note, _ = strings.CutPrefix(inv.Refuse(st.Used, amount), fmt.Sprintf("asks %d, ", amount))
	case amount <= inv.Capacity():
		d.Cause = Held
	case amount <= int(float64(inv.Total)*inv.AllocationRatio):
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
			d, _ := p.supply(t, around, kinds, n)
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
	return []Deficit{{Cause: Contended, Asks: len(kinds), Note: note}}
}

// supply compares what kinds ask of a class with what the providers that admit them have, and says how much more the
// operator keeps back.
func (p *plan) supply(t *index.Tree, around []index.Place, kinds []int, of need) (d Deficit, reserved int) {
	whole := 0
	counted := make([]bool, len(around))
	for _, i := range kinds {
		k := &p.kinds[i]
		amount := k.amount(of.class)
		if amount == 0 {
			continue
		}
		d.Asks += amount * len(k.items)
		for a, at := range around {
			if counted[a] || !k.offered(at) || !k.admits(t, at) {
				continue
			}
			counted[a] = true
			st := at.Node().Stock(of.number)
			d.Free += max(st.Inventory.Capacity()-st.Used, 0)
			d.Of += st.Inventory.Capacity()
			whole += int(float64(st.Inventory.Total) * st.Inventory.AllocationRatio)
		}
	}
	switch {
	case d.Asks <= d.Of:
		d.Cause = Held
	case d.Asks <= whole:
		d.Cause = Reserved
	default:
		d.Cause = Small
	}
	if whole > d.Of {
		d.Note = fmt.Sprintf("%d reserved", whole-d.Of)
	}
	return d, whole - d.Of
}

// measure notes how much of a section's classes a surveyed host lacks.
func (x *explainer) measure(st *standing, h *host, s *section) {
	for _, class := range s.classes {
		asked, free := 0, 0
		x.counted = zeros(x.counted, len(h.spots))
		for _, k := range s.kinds {
			amount := h.kinds[k].amount(class)
			if amount == 0 {
				continue
			}
			asked += amount * len(h.kinds[k].items)
			for _, at := range h.domains[k] {
				if !x.counted[at] {
					x.counted[at] = true
					free += h.left(int(at), class)
				}
			}
		}
		st.lack += float64(max(asked-free, 0)) / float64(max(asked, 1))
	}
}

// gauge notes how much a host lacks of what a kind asks that is not free, and what it has of it.
func (x *explainer) gauge(st *standing, kind int, around []index.Place) {
	k := &x.plan.kinds[kind]
	if len(k.needs) == 1 {
		d, reserved := x.plan.supply(st.tree, around, []int{kind}, k.needs[0])
		st.free, st.of, st.reserved = d.Free, d.Of, reserved
		if d.Free < d.Asks {
			st.lack = float64(d.Asks-d.Free) / float64(d.Asks)
			return
		}
	}
	st.lack = lack(x.short(st.tree, kind))
}
