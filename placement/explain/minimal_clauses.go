package explain

import (
	"slices"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
)

// smallWork is how much work the search for a minimal set of clauses may do at least, however little the judgement was:
// a fraction of a millisecond.
const smallWork = 5_000

// fewTrees is how many trees are tried one by one before one of each shape is tried.
const fewTrees = 64

// minimizer searches a minimal set of clauses that no host meets together. It starts with clauses that refute every
// host, and leaves out clauses as long as no host meets the rest.
type minimizer struct {
	*judge
	few         int   // fewTrees
	most        int   // work that may still be done
	cores       []set // each: clauses that some hosts cannot meet together
	coreOf      []int // by position in judge.classes: position in cores
	outsideCore int   // position in cores, for the trees that the narrowing excludes; -1: there are none
}

// newMinimizer returns the minimizer and the set of clauses to start with.
func newMinimizer(j *judge) (*minimizer, set) {
	m := &minimizer{judge: j, few: fewTrees, most: j.work.done + smallWork,
		coreOf: make([]int, len(j.classes)), outsideCore: -1}
	keep := make(set, j.clauses.count)
	ofStage := slices.Repeat([]int{-1}, len(j.stages))
	coreOfStage := func(stage int) int {
		if ofStage[stage] < 0 {
			ofStage[stage] = m.addCore(j.refuted(j.stages[stage]))
			keep.addAll(m.cores[ofStage[stage]])
		}
		return ofStage[stage]
	}
	if j.outside > 0 {
		m.outsideCore = coreOfStage(j.find(narrowed, 0))
	}
	for i := range j.classes {
		m.coreOf[i] = coreOfStage(j.classes[i].stage)
	}
	return m, keep
}

func (m *minimizer) addCore(core set) int {
	m.cores = append(m.cores, core)
	return len(m.cores) - 1
}

// minimal returns clauses of keep that no host meets together. It does at most about as much work as the judgement has
// done, and some small work. rough reports that the work ended before each
// of them was known to be needed.
func (m *minimizer) minimal(keep set) (minimal set, rough bool) {
	m.work.limit = m.work.done + m.most
	needed := map[string]bool{} // kinds of clauses that cannot be left out of keep
	for _, drop := range m.clauses.order() {
		kind := m.clauses.kindOf(keep, drop)
		if needed[kind] || !slices.ContainsFunc(drop, func(at int) bool { return keep[at] }) {
			continue
		}
		less := m.clauses.without(keep, drop)
		switch feasible, known := m.feasible(less); {
		case !known:
			return keep, true
		case feasible:
			needed[kind] = kind != ""
		default:
			keep = less
			clear(needed)
		}
	}
	return keep, false
}

// feasible reports whether some host meets these clauses. known is false if the work ended before that was found.
func (m *minimizer) feasible(keep set) (feasible, known bool) {
	if !slices.Contains(keep, true) {
		return true, true
	}
	refuted := make([]bool, len(m.cores))
	for i, core := range m.cores {
		refuted[i] = core.within(keep)
	}
	q := m.full.CompileOther(m.clauses.with(keep))
	solver := candidate.NewTreeSolver(q, m.work.ended)
	m.work.compile(q)
	try := func(t *index.Tree) bool { // returns true to end the search
		m.work.solve(q, t)
		feasible = solver.Solve(t)
		return feasible || m.work.spent() || m.work.stopped
	}
	if !m.tryTrees(q, refuted, try) && !m.work.spent() && !m.work.stopped {
		core := m.addCore(keep)
		for i, at := range m.coreOf {
			if !refuted[at] {
				m.coreOf[i] = core
			}
		}
		if m.outsideCore >= 0 && !refuted[m.outsideCore] {
			m.outsideCore = core
		}
		return false, true
	}
	return feasible, feasible
}

// tryTrees calls try with trees until it returns true: with each that is not refuted and that the index does not
// exclude for the query, but only with one of each shape. It reports whether try returned true.
func (m *minimizer) tryTrees(q *match.Query, refuted []bool, try func(*index.Tree) bool) bool {
	tryNew := func(t *index.Tree) bool {
		m.work.seek()
		if at, known := m.classOf(t); known {
			return !refuted[m.coreOf[at]] && try(t)
		}
		return !refuted[m.outsideCore] && try(t)
	}
	if few := q.TreesWithRoom(m.few); few != nil {
		for t := range few {
			if tryNew(t) {
				return true
			}
		}
		return false
	}
	for _, at := range m.order {
		if !refuted[m.coreOf[at]] && try(m.classes[at].trees[0]) {
			return true
		}
	}
	return m.outsideCore >= 0 && !refuted[m.outsideCore] && m.tryOutside(q, try)
}

// tryOutside calls try with one tree of each shape that the narrowing has excluded, and each tree that in_tree names.
func (m *minimizer) tryOutside(q *match.Query, try func(*index.Tree) bool) bool {
	tryNew := func(t *index.Tree) bool {
		m.work.seek()
		_, known := m.classOf(t)
		return !known && try(t) || m.work.spent()
	}
	for _, root := range q.InTreeRoots() {
		if tryNew(m.snapshot.Lookup(root)) {
			return true
		}
	}
	for t := range m.snapshot.Shapes() {
		if q.NamesTree(t) {
			for other := range m.snapshot.SameShape(t).All() {
				if t = other; !q.NamesTree(t) {
					break
				}
			}
		}
		if tryNew(t) {
			return true
		}
	}
	return false
}
