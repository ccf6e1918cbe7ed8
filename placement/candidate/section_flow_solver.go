package candidate

import "github.com/openberth/berth/placement/match"

// flow decides an exact section: one in which each slot takes a fixed number of items. Its witness is a transport.
type flow struct {
	transport
	query   *match.Query
	section *match.Section
	rows    []int // by item class of the query
}

func newFlow(q *match.Query, s *match.Section) *flow {
	f := &flow{query: q, section: s, rows: make([]int, len(q.ItemClasses))}
	f.domains = make([][]int32, len(s.ItemClasses))
	for row, c := range s.ItemClasses {
		f.rows[c] = row
	}
	return f
}

func (f *flow) reset(s *treeSlots) {
	f.clear(len(s.slots))
	for row, c := range f.section.ItemClasses {
		f.domains[row] = s.domains[c]
		for _, at := range s.domains[c] {
			f.cap[at] = f.capacity(s, int(at), &f.query.ItemClasses[c])
		}
	}
}

// capacity returns how many items a slot takes.
func (f *flow) capacity(s *treeSlots, at int, c *match.ItemClass) int {
	if f.query.Isolate && !c.Unsuffixed {
		return 1
	}
	n := len(f.section.Items)
	for _, need := range c.Needs {
		n = min(n, s.roomOf(at, need.Class)/need.Amount)
	}
	return n
}

func (f *flow) solve() bool {
	for row, c := range f.section.ItemClasses {
		if !f.carry(row, len(f.query.ItemClasses[c].Items)) {
			return false
		}
	}
	return true
}

func (f *flow) force(item, at int) bool { return f.fix(f.rows[f.query.Items[item].Class], at) }

func (f *flow) hint(int) int { return -1 }

func (f *flow) release(item, at int) { f.unfix(f.rows[f.query.Items[item].Class], at) }
