package explain

import (
	"cmp"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
)

// near is a tree that came close.
type near struct {
	tree      *index.Tree
	class     *treeClass
	shortfall float64
}

// nearest returns the trees that lack least among those that came furthest, of equal ones the first by ID; and what
// all that came furthest have of the class they lack, if the stage is about free units.
func (j *judge) nearest() (misses []NearestMiss, has supply) {
	if len(j.order) == 0 {
		return j.otherHosts(), supply{}
	}
	var best []near
	for _, at := range j.order {
		c := &j.classes[at]
		if c.stage < j.furthest() {
			break
		}
		shortfall, here := j.shortfallOf(c)
		has = has.plus(here, c.count)
		for _, t := range c.trees[:min(len(c.trees), mostNearest)] {
			best = insert(best, near{t, c, shortfall})
		}
	}
	for _, n := range best {
		misses = append(misses, missOf(n.tree, j.deficits(n.tree, n.class)))
	}
	return misses, has
}

// insert adds a tree to a sorted list of the nearest ones, if it belongs there.
func insert(best []near, n near) []near {
	compare := func(a, b near) int {
		return cmp.Or(cmp.Compare(a.shortfall, b.shortfall), cmp.Compare(a.tree.Root, b.tree.Root))
	}
	if len(best) == mostNearest && compare(n, best[mostNearest-1]) >= 0 {
		return best
	}
	best = append(best, n)
	slices.SortStableFunc(best, compare)
	return best[:min(len(best), mostNearest)]
}

func missOf(t *index.Tree, deficits []Deficit) NearestMiss {
	return NearestMiss{t.Root, nameOf(t), deficits}
}

func (j *judge) view(t *index.Tree) view { return view{t, j.around.of(t)} }

// shortfallOf returns how much the trees of a class lack at the stage they fail, and what they have of it.
func (j *judge) shortfallOf(c *treeClass) (shortfall float64, has supply) {
	switch s := j.stages[c.stage]; s.rule {
	case narrowed, rooted, offered, covered, qualified:
		return 0, supply{}
	case free:
		return j.view(c.trees[0]).itemShortfall(j.relaxed, s.at)
	default:
		q := j.queryOf(s.rule)
		return j.view(c.trees[0]).sectionShortfall(q, &q.Sections[c.section]), supply{}
	}
}

// deficits returns what a tree lacks at the stage its class fails.
func (j *judge) deficits(t *index.Tree, c *treeClass) []Deficit {
	note := ""
	s, q, v := j.stages[c.stage], j.relaxed, j.view(t)
	switch s.rule {
	case rooted:
		return []Deficit{j.wrongRoot()}
	case offered:
		return []Deficit{j.absent(s.at)}
	case covered:
		return []Deficit{{Cause: Excluded, Asks: 1, Note: "no provider of " + j.coveredText(s.at)}}
	case qualified:
		return []Deficit{v.unqualified(&q.ItemClasses[s.at])}
	case free:
		return v.unfree(q, s.at)
	case isolated:
		note = "group_policy=isolate"
	case subtree:
		note = "same_subtree"
	}
	q = j.queryOf(s.rule)
	return v.contended(q, q.Sections[c.section].ItemClasses, note)
}

func (j *judge) wrongRoot() Deficit {
	return Deficit{Cause: Excluded, Asks: 1, Note: "its root is not one " + rootConditions(j.full.Ask)}
}

func (j *judge) absent(class int) Deficit {
	all := make([]int, len(j.relaxed.ItemClasses))
	for i := range all {
		all[i] = i
	}
	return Deficit{Class: j.relaxed.Names[class], Cause: Absent, Asks: askedOf(j.relaxed, all, class)}
}

// otherHosts returns a few hosts when no host meets the clause of the narrowing: those that the clause with the fewest
// hosts, apart from clauses that none meets, leaves.
func (j *judge) otherHosts() (misses []NearestMiss) {
	trees, few := j.snapshot.Trees(), j.snapshot.Len()
	j.relaxed.Narrowings(j.sharedServes, func(n match.Narrowing) {
		if size := n.Len(); size > 0 && size < few {
			trees, few = n.All(), size
		}
	})
	d := j.wrongRoot()
	switch n := j.narrow; {
	case n.Class >= 0:
		d = j.absent(n.Class)
	case n.ItemClass >= 0 && j.narrowClass().Resource != "":
		c := j.narrowClass()
		asks := match.Times(c.Weight(), len(c.Items))
		d = Deficit{Class: c.Resource, Cause: Excluded, Asks: asks, Note: "with " + j.narrowTrait()}
	}
	for t := range trees {
		if misses = append(misses, missOf(t, []Deficit{d})); len(misses) == mostNearest {
			break
		}
	}
	return misses
}
