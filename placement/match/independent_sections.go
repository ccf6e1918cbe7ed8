package match

import (
	"slices"
)

// divide fills Sections. Two item classes are in one section when they need one resource class, when both must use
// providers of their own, when both belong to an unsuffixed group with required traits, or when a clause names both.
func (q *Query) divide() {
	leader := make([]int, len(q.ItemClasses))
	for i := range leader {
		leader[i] = i
	}
	join := func(a, b int) {
		from, to := leader[b], leader[a]
		for i, l := range leader {
			if l == from {
				leader[i] = to
			}
		}
	}
	for a := range q.ItemClasses {
		for b := range a {
			if q.compete(&q.ItemClasses[a], &q.ItemClasses[b]) {
				join(a, b)
			}
		}
	}
	for _, clause := range q.Subtrees {
		for _, i := range clause {
			join(q.Items[clause[0]].Class, q.Items[i].Class)
		}
	}
	for c, l := range leader {
		if c == l {
			q.Sections = append(q.Sections, q.section(l, leader))
		}
	}
}

// compete reports whether items of two classes may get in each other's way, same_subtree aside.
func (q *Query) compete(a, b *ItemClass) bool {
	if q.Isolate && !a.Unsuffixed && !b.Unsuffixed || len(q.Cover) > 0 && a.Unsuffixed && b.Unsuffixed {
		return true
	}
	return slices.ContainsFunc(a.Needs, func(n Need) bool { return b.Amount(n.Class) > 0 })
}

// section returns the section of the item classes with this leader.
func (q *Query) section(l int, leader []int) Section {
	var s Section
	for i := range q.ItemClasses {
		if leader[i] != l {
			continue
		}
		c := &q.ItemClasses[i]
		s.ItemClasses = append(s.ItemClasses, i)
		s.Items = append(s.Items, c.Items...)
		s.Covers = s.Covers || c.Unsuffixed && len(q.Cover) > 0
		s.Clauses = append(s.Clauses, c.Subtrees...)
		for _, n := range c.Needs {
			s.Classes = append(s.Classes, n.Class)
		}
	}
	for _, list := range []*[]int{&s.Items, &s.Classes, &s.Clauses} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	s.Exact = !s.Covers && len(s.Clauses) == 0 && q.uniform(s.ItemClasses)
	return s
}

// uniform reports whether each provider takes a fixed number of items, whichever of these classes they are of: one
// item when all are isolated, or as many as fit when all need the same amounts.
func (q *Query) uniform(classes []int) bool {
	isolated, equal := q.Isolate, true
	for _, c := range classes {
		isolated = isolated && !q.ItemClasses[c].Unsuffixed
		equal = equal && slices.Equal(q.ItemClasses[c].Needs, q.ItemClasses[classes[0]].Needs)
	}
	if isolated {
		return true
	}
	mixed := q.Isolate && slices.ContainsFunc(classes, func(c int) bool { return !q.ItemClasses[c].Unsuffixed })
	return equal && !mixed
}
