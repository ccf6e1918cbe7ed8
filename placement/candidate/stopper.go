package candidate

// StepsOfATree is how many steps a search for a client may take on one tree; see Options.TreeSteps. All but a few of
// the asks that people can make are decided within a hundredth of that.
const StepsOfATree = 400_000

// stopper ends a search when its caller wants that, and gives up a tree on which it takes too long.
type stopper struct {
	stop   func() bool // nil: never stop
	calls  int         // of step
	over   bool        // the work on this tree must end
	ended  bool        // stop has returned true
	budget int         // how many steps one tree may take; 0: any number
	taken  int         // by this tree
}

// stopped reports whether the search must end, and counts one step. It calls stop at its own first call and at each
// 64th after that.
func (s *stopper) stopped() bool { return s.step(1) }

// step is stopped for a step that costs as much as cost simple ones.
func (s *stopper) step(cost int) bool {
	if s.stop != nil && !s.ended && s.calls%64 == 0 {
		s.ended = s.stop()
	}
	s.calls++
	s.taken += cost
	s.over = s.over || s.ended || s.budget > 0 && s.taken > s.budget
	return s.over
}

// begin starts with another tree, or with another part of the work on it.
func (s *stopper) begin() { s.over, s.taken = s.ended, 0 }
