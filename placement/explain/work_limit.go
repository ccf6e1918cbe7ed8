package explain

import (
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
)

// work counts what an explanation costs and ends it: when the caller stops it, or when a limit is reached. The unit is
// one provider checked for one item class, or one step of a search.
type work struct {
	stop    func() bool // nil: never
	stopped bool        // stop has returned true
	done    int
	limit   int // 0: none
}

// searchSteps is how many steps a search takes between two calls of its stop function.
const searchSteps = 64

// ended is the stop function of the searches.
func (w *work) ended() bool {
	w.done += searchSteps
	w.stopped = w.stopped || w.stop != nil && w.stop()
	return w.stopped || w.spent()
}

// compile counts the compilation of a query.
func (w *work) compile(q *match.Query) { w.done += len(q.Items) * len(q.ItemClasses) }

// solve counts what it costs to prepare the solution of a query on a tree. Steps of a search are counted by ended.
func (w *work) solve(q *match.Query, t *index.Tree) {
	w.done += len(t.Nodes) * (1 + len(q.ItemClasses)) * (1 + len(q.Subtrees))
}

// seek counts finding a tree in the index, which costs about as much as checking this many providers.
func (w *work) seek() { w.done += 20 }

// spent reports whether the limit is exceeded.
func (w *work) spent() bool { return w.limit > 0 && w.done > w.limit }
