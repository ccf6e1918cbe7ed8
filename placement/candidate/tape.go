package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
)

// Trees of one shape have the same candidates at the same positions: what was found on the first is said again of the others.
// Only short tapes are kept, and not many: where a host has more candidates than that, finding them is no more work than saying them.
const (
	tapeLength = 1 << 12 // positions on one tape
	tapeRoom   = 1 << 20 // positions on all tapes
)

// tape is what a host has to give.
type tape struct {
	spots   []int     // by spot: its position in the tree
	domains [][]int32 // as in host
	at      []int32   // as in walk, candidate by candidate
}

// tapes are those of one search, by shape. With sharing providers there are none: what a tree may borrow depends on more than its shape.
type tapes struct {
	plan  *plan
	kept  map[index.Shape]*tape
	now   *tape // being recorded, or nil
	shape index.Shape
	room  int // positions that may still be kept

	player *walk
}

func newTapes(p *plan) *tapes {
	ts := &tapes{plan: p, room: tapeRoom}
	if len(p.sharers) == 0 {
		ts.kept = map[index.Shape]*tape{}
	}
	return ts
}

// of finds the tape for a tree, or nil.
func (ts *tapes) of(t *index.Tree) *tape {
	if ts.plan.named(t) {
		return nil
	}
	return ts.kept[t.Shape]
}

func (ts *tapes) begin(t *index.Tree) {
	ts.now = nil
	if ts.kept != nil && ts.room > 0 && !ts.plan.named(t) {
		ts.now, ts.shape = &tape{}, t.Shape
	}
}

// record adds the candidate that the walk stands on.
func (ts *tapes) record(w *walk) {
	if ts.now == nil {
		return
	}
	if len(ts.now.at)+len(w.at) > min(tapeLength, ts.room) {
		ts.now = nil
		return
	}
	for _, at := range w.at {
		ts.now.at = append(ts.now.at, int32(at))
	}
}

// end keeps the tape of a host whose candidates have all been recorded.
func (ts *tapes) end(w *walk) {
	if ts.now == nil || w.host.over {
		return
	}
	for _, s := range w.host.spots {
		ts.now.spots = append(ts.now.spots, s.At)
	}
	for _, d := range w.host.domains {
		ts.now.domains = append(ts.now.domains, slices.Clone(d))
		ts.room -= len(d)
	}
	ts.room -= len(ts.now.spots) + len(ts.now.at)
	ts.kept[ts.shape] = ts.now
}

// play stands a walk of its own on each candidate of the tape, but of this tree. It ends early, and says false, when give does.
func (ts *tapes) play(known *tape, t *index.Tree, give func(*walk) bool) bool {
	if ts.player == nil {
		ts.player = &walk{host: &host{plan: ts.plan}, at: make([]int, len(ts.plan.items))}
	}
	w := ts.player
	w.begin()
	w.host.tree, w.host.spots, w.host.domains = t, w.host.spots[:0], known.domains
	for _, at := range known.spots {
		w.host.spots = append(w.host.spots, spot{Place: index.Place{Tree: t, At: at}})
	}
	for at := known.at; len(at) > 0; at = at[len(w.at):] {
		for i := range w.at {
			w.at[i] = int(at[i])
		}
		if !give(w) {
			return false
		}
	}
	return true
}
