package sqldb

import (
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/openberth/berth/fault"
)

// Names of the functions that run a caller's function in a transaction, as they appear in a stack trace.
const (
	runsBatched = "(*write).borrow"
	runsPooled  = "(*DB).transact"
	runsSingle  = "(*DB).readOne"
)

// runners has, for each program counter that within has seen, which of the functions above is there, or "". To find the
// name of a function takes longer than all else that within does.
var runners = struct {
	sync.RWMutex
	at map[uintptr]string
}{at: map[uintptr]string{}}

// within reports whether the calling goroutine is inside one of these functions of this package. It costs about a
// microsecond.
func within(names ...string) bool {
	callers := make([]uintptr, 100)
	callers = callers[:runtime.Callers(2, callers)]
	inside := func(pc uintptr) bool { return slices.Contains(names, runners.at[pc]) }
	unknown := func(pc uintptr) bool { _, known := runners.at[pc]; return !known }
	runners.RLock()
	found, learn := slices.ContainsFunc(callers, inside), slices.ContainsFunc(callers, unknown)
	runners.RUnlock()
	if found || !learn {
		return found
	}
	runners.Lock()
	defer runners.Unlock()
	for _, pc := range callers {
		runners.at[pc] = runnerAt(pc)
	}
	return slices.ContainsFunc(callers, inside)
}

// runnerAt returns which of the functions that run a transaction is at a program counter; "": none.
func runnerAt(pc uintptr) string {
	frames := runtime.CallersFrames([]uintptr{pc})
	for {
		frame, more := frames.Next() // the functions that are inlined there too
		_, name, _ := strings.Cut(frame.Function, "/sqldb.")
		if slices.Contains([]string{runsBatched, runsPooled, runsSingle}, name) {
			return name
		}
		if !more {
			return ""
		}
	}
}

// nested returns the fault for a Write or Read inside the function of another one, which would wait for itself.
func nested(op string) error {
	return fault.New(fault.Internal, "a transaction inside the function of another transaction would wait for itself; "+
		"use the Tx, or call %s after the other has returned", op)
}
