package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
)

// Trees of one shape have the same candidates at the same positions: what was found on the first is repeated for the
// others. Only short lists are kept, and not many: where a tree has more candidates, finding them costs no more than
// repeating them.
const (
	memoLength = 1 << 12 // positions in one memo
	memoRoom   = 1 << 20 // positions in all memos
)

// memo is the candidates of one tree, for the other trees of its shape.
type memo struct {
	nodes   []int     // by slot: its position in the tree
	domains [][]int32 // as in treeSlots
	at      []int32   // as in enumeration, one candidate after another
}

// memos are those of one Find, by shape. With sharing providers none are made: what a tree can use then depends on
// more than its shape.
type memos struct {
	query   *match.Query
	kept    map[index.Shape]*memo
	current *memo // being recorded, or nil
	shape   index.Shape
	room    int // positions that may still be kept

	replayer *enumeration
}

func newMemos(q *match.Query) *memos {
	m := &memos{query: q, room: memoRoom}
	if len(q.Shared) == 0 {
		m.kept = map[index.Shape]*memo{}
	}
	return m
}

// of returns the memo for a tree, or nil.
func (m *memos) of(t *index.Tree) *memo {
	if m.query.NamesTree(t) {
		return nil
	}
	return m.kept[t.Shape]
}

// begin starts to record the candidates of a tree.
func (m *memos) begin(t *index.Tree) {
	m.current = nil
	if m.kept != nil && m.room > 0 && !m.query.NamesTree(t) {
		m.current, m.shape = &memo{}, t.Shape
	}
}

// record adds the current candidate of the enumeration.
func (m *memos) record(e *enumeration) {
	if m.current == nil {
		return
	}
	if len(m.current.at)+len(e.at) > min(memoLength, m.room) {
		m.current = nil
		return
	}
	for _, at := range e.at {
		m.current.at = append(m.current.at, int32(at))
	}
}

// end keeps the memo of a tree whose candidates have all been recorded.
func (m *memos) end(s *treeSlots) {
	if m.current == nil {
		return
	}
	for _, slot := range s.slots {
		m.current.nodes = append(m.current.nodes, slot.At)
	}
	for _, d := range s.domains {
		m.current.domains = append(m.current.domains, slices.Clone(d))
		m.room -= len(d)
	}
	m.room -= len(m.current.nodes) + len(m.current.at)
	m.kept[m.shape] = m.current
}

// replay calls yield with each candidate of the memo, but of another tree. It stops and returns false if yield does.
func (m *memos) replay(known *memo, t *index.Tree, yield func(*enumeration) bool) bool {
	if m.replayer == nil {
		m.replayer = &enumeration{slots: &treeSlots{query: m.query}, at: make([]int, len(m.query.Items))}
	}
	e := m.replayer
	s := e.slots
	s.tree, s.slots, s.domains = t, s.slots[:0], known.domains
	for _, at := range known.nodes {
		s.slots = append(s.slots, slot{Place: index.Place{Tree: t, At: at}})
	}
	for at := known.at; len(at) > 0; at = at[len(e.at):] {
		for i := range e.at {
			e.at[i] = int(at[i])
		}
		if !yield(e) {
			return false
		}
	}
	return true
}
