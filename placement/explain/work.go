package explain

// work counts what an explanation costs, in providers looked at and steps of searches, and ends it: when the caller
// stops it, or when a limit is reached.
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

// add counts some work.
func (w *work) add(n int) { w.done += n }

// spent reports whether the limit is exceeded.
func (w *work) spent() bool { return w.limit > 0 && w.done > w.limit }
