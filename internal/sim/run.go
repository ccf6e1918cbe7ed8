package sim

import (
	"fmt"
	"slices"
	"time"
)

// Run runs a simulation. It ends at the first violation.
func Run(o Options) Report {
	w := newWorld(o)
	for w.n = 1; w.n <= o.Ops && w.failure == ""; w.n++ {
		w.advance(time.Second)
		w.operate()
		w.checkMarked()
		if w.failure == "" && w.n%w.options.Quiet == 0 {
			w.quiesce()
		}
	}
	if w.failure == "" {
		w.finish()
	}
	w.report.Seed, w.report.Ops = o.Seed, min(w.n, o.Ops)
	if w.failure != "" {
		w.report.Failure = fmt.Sprintf("seed %d, operation %d: %s\n%s", o.Seed, w.n, w.failure, w.excerpt())
	}
	return w.report
}

// Shrink repeats a failed simulation without one more kind of operations and failures at a time, and returns the
// smallest one that still fails.
func Shrink(o Options, failed Report) (Options, Report) {
	o.Ops = failed.Ops
	for _, kind := range append(kindsOfOps(), Crashes, Messages, Disks, Answers, Builds, Lists, Foreign, Ends) {
		less := o
		less.Without = append(slices.Clone(o.Without), kind)
		if r := Run(less); r.Failure != "" {
			o, failed = less, r
			o.Ops = r.Ops
		}
	}
	return o, failed
}
