package sysfs

import (
	"fmt"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/fault"
)

// reading is what has been read so far.
type reading struct{ facts.Facts }

func (f *reading) problem(name, format string, args ...any) {
	f.Problems = append(f.Problems, facts.Problem{Name: printable(name), Sentence: fmt.Sprintf(format, args...)})
}

// unreadable adds the problem that a device exists and cannot be identified.
func (f *reading) unreadable(name string, why error) {
	f.problem(name, "%s, so the device is unreadable: it stays as it was last read, or is not offered if the agent "+
		"never read it, and a server that holds it keeps it; look for it in the kernel log, and let the agent read "+
		"its files", fault.TextOf(why))
	f.Problems[len(f.Problems)-1].Unreadable = true
}
