package explain

import (
	"cmp"
	"iter"
	"slices"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
)

// The numbers of hosts that are reported at most.
const (
	mostNearest = 3  // of the nearest ones
	mostNamed   = 20 // by name, of those that one clause removes
)

// judge finds for each tree the first stage that it fails. Trees of one shape fail the same stage: one of them is
// judged.
type judge struct {
	*problem
	work    *work
	around  *surroundings
	solvers []ruledSolver // from the loosest query to the full one

	classes []treeClass
	byShape map[index.Shape]int // position in classes
	byTree  map[*index.Tree]int // position in classes, of trees that in_tree names
	order   []int               // positions in classes, those that came furthest first
	outside int                 // how many trees the narrowing excludes
}

// ruledSolver solves the query for the stages up to a rule.
type ruledSolver struct {
	rule  rule
	query *match.Query
	*candidate.TreeSolver
}

// treeClass is the trees of one shape.
type treeClass struct {
	trees   []*index.Tree // the first of them, at most mostNamed
	count   int
	stage   int // the one that they fail
	section int // which cannot be solved, if the stage is about a section: its position in the stage's query
}

func newJudge(p *problem, w *work) *judge {
	j := &judge{problem: p, work: w, around: newSurroundings(p.full.Sharing)}
	add := func(r rule, q *match.Query) {
		w.compile(q)
		j.solvers = append(j.solvers, ruledSolver{r, q, candidate.NewTreeSolver(q, w.ended)})
	}
	add(together, p.relaxed)
	if p.isolated != nil {
		add(isolated, p.isolated)
	}
	if len(p.full.Subtrees) > 0 {
		add(subtree, p.full)
	} else if p.full.Isolate {
		add(isolated, p.full)
	}
	return j
}

// judgeAll judges all trees. It returns false when a tree fails no stage, or when the work was stopped.
func (j *judge) judgeAll() bool {
	trees, size := j.snapshot.Trees(), j.snapshot.Len()
	if j.narrow != nil {
		trees, size = j.narrow.All(), j.narrow.Len()
	}
	j.outside = j.snapshot.Len() - size
	room := min(size, 16)
	j.byShape, j.classes = make(map[index.Shape]int, room), make([]treeClass, 0, room)
	for t := range trees {
		if at, known := j.classOf(t); known {
			j.classes[at].join(t)
			continue
		}
		c := treeClass{trees: []*index.Tree{t}, count: 1}
		if c.stage, c.section = j.failedStage(t); c.stage == len(j.stages) || j.work.stopped {
			return false
		}
		j.enter(t, c)
	}
	j.order = make([]int, len(j.classes))
	for i := range j.order {
		j.order[i] = i
	}
	slices.SortStableFunc(j.order, func(a, b int) int { return cmp.Compare(j.classes[b].stage, j.classes[a].stage) })
	return true
}

// classOf returns the position of the class of a tree, and whether it is known.
func (j *judge) classOf(t *index.Tree) (at int, known bool) {
	if j.full.NamesTree(t) {
		at, known = j.byTree[t]
		return at, known
	}
	at, known = j.byShape[t.Shape]
	return at, known
}

// enter adds a class with its first tree.
func (j *judge) enter(t *index.Tree, c treeClass) {
	at := len(j.classes)
	j.classes = append(j.classes, c)
	if !j.full.NamesTree(t) {
		j.byShape[t.Shape] = at
		return
	}
	if j.byTree == nil {
		j.byTree = map[*index.Tree]int{}
	}
	j.byTree[t] = at
}

// join adds a tree to the class.
func (c *treeClass) join(t *index.Tree) {
	if c.count < mostNamed {
		c.trees = append(c.trees, t)
	}
	c.count++
}

// furthest returns the last stage that any tree has reached. No tree passes it.
func (j *judge) furthest() int {
	if len(j.order) == 0 {
		return 0
	}
	return j.classes[j.order[0]].stage
}

// passing counts the trees that pass a stage and all before it.
func (j *judge) passing(stage int) int {
	n := 0
	for i := range j.classes {
		if j.classes[i].stage > stage {
			n += j.classes[i].count
		}
	}
	return n
}

// removed returns the names of hosts that pass all stages before this one, but not this one.
func (j *judge) removed(stage int) []string {
	if j.stages[stage].rule == narrowed {
		return namesOf(j.outsideTrees())
	}
	return namesOf(func(yield func(*index.Tree) bool) {
		for i := range j.classes {
			for _, t := range j.classes[i].trees {
				if j.classes[i].stage == stage && !yield(t) {
					return
				}
			}
		}
	})
}

// outsideTrees iterates over the trees that the narrowing excludes. Both orders are those of the IDs of the roots.
func (j *judge) outsideTrees() iter.Seq[*index.Tree] {
	return func(yield func(*index.Tree) bool) {
		next, stop := iter.Pull(j.narrow.All())
		defer stop()
		inside, _ := next()
		for t := range j.snapshot.Trees() {
			if t == inside {
				inside, _ = next()
			} else if !yield(t) {
				return
			}
		}
	}
}

// namesOf returns the names of the first mostNamed trees, sorted.
func namesOf(trees iter.Seq[*index.Tree]) (names []string) {
	for t := range trees {
		if names = append(names, nameOf(t)); len(names) == mostNamed {
			break
		}
	}
	slices.Sort(names)
	return names
}

// nameOf returns the name of the root of a tree, or its ID.
func nameOf(t *index.Tree) string {
	if top := t.Top(); top != nil {
		return top.Name
	}
	return string(t.Root)
}

// failedStage returns the first stage that a tree fails, or the number of stages; for a stage about a section, also the
// section that has no solution.
func (j *judge) failedStage(t *index.Tree) (stage, section int) {
	if !j.full.AdmitsRoot(t) {
		return j.find(rooted, 0), -1
	}
	for _, s := range j.solvers {
		j.work.solve(s.query, t)
		switch {
		case s.Solve(t):
		case s.rule != together:
			return j.find(s.rule, 0), s.FailedSection()
		case s.FailedSection() >= 0 && j.uncoveredStage(t) >= 0:
			return j.uncoveredStage(t), -1
		case s.FailedSection() >= 0:
			return j.find(together, s.FailedSection()), s.FailedSection()
		default:
			return j.unservedStage(t), -1
		}
	}
	return len(j.stages), -1
}

// uncoveredStage returns the first stage about traits of the unsuffixed group that a tree fails; -1: none.
func (j *judge) uncoveredStage(t *index.Tree) int {
	around := j.around.of(t)
	return slices.IndexFunc(j.stages, func(s stage) bool { return s.rule == covered && !j.covers(around, s.at) })
}

// covers reports whether some provider with inventory for the unsuffixed group has one of a set of traits.
func (j *judge) covers(around []index.Place, set int) bool {
	q := j.relaxed
	return slices.ContainsFunc(around, func(at index.Place) bool {
		serves := func(i int) bool {
			c := &q.ItemClasses[i]
			return c.Unsuffixed && c.Offered(at.Node())
		}
		return slices.ContainsFunc(q.Cover[set], at.Node().HasTrait) &&
			slices.ContainsFunc(j.coveringSection().ItemClasses, serves)
	})
}

// unservedStage returns the first stage that a tree fails on which some item has no provider.
func (j *judge) unservedStage(t *index.Tree) int {
	around := j.around.of(t)
	return slices.IndexFunc(j.stages, func(s stage) bool {
		switch s.rule {
		case offered:
			class := j.relaxed.Classes[s.at]
			offers := func(at index.Place) bool { return match.Offers(at.Node(), class) }
			return !t.Has(class) && !slices.ContainsFunc(around[len(t.Nodes):], offers)
		case covered:
			return !j.covers(around, s.at)
		case qualified:
			c := &j.relaxed.ItemClasses[s.at]
			serves := func(at index.Place) bool { return c.Offered(at.Node()) && c.Admits(t, at) }
			return !slices.ContainsFunc(around, serves)
		case free:
			c := &j.relaxed.ItemClasses[s.at]
			serves := func(at index.Place) bool { return c.HasRoom(at.Node()) && c.Admits(t, at) }
			return !slices.ContainsFunc(around, serves)
		}
		return false
	})
}
