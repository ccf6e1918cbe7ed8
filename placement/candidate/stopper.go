package candidate

// stopper calls a stop function repeatedly during a search.
type stopper struct {
	stop  func() bool // nil: never stop
	calls int         // of stopped
	over  bool        // stop has returned true
}

// stopped reports whether the search must end. It calls stop at its own first call and at each 64th after that.
func (s *stopper) stopped() bool {
	if s.stop != nil && !s.over && s.calls%64 == 0 {
		s.over = s.stop()
	}
	s.calls++
	return s.over
}
