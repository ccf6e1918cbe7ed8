package sqldb

import (
	"runtime"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// Names of the functions that run a caller's function in a transaction, as they appear in a stack trace.
const (
	runsBatched = "(*write).borrow"
	runsPooled  = "(*DB).transact"
	runsSingle  = "(*DB).readOne"
)

// within reports whether the calling goroutine is inside one of these functions of this package. It costs about a
// microsecond.
func within(names ...string) bool {
	callers := make([]uintptr, 100)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		_, name, ours := strings.Cut(frame.Function, "/sqldb.")
		if ours && slices.Contains(names, name) {
			return true
		}
		if !more {
			return false
		}
	}
}

// nested returns the fault for a Write or Read inside the function of another one, which would wait for itself.
func nested(op string) error {
	return fault.New(fault.Internal, "a transaction inside the function of another transaction would wait for itself; "+
		"use the Tx, or call %s after the other has returned", op)
}
