package host

import (
	"cmp"
	"time"
)

// SilentTime returns the time without a sign of life from which on the host is silent.
func (r Report) SilentTime() time.Duration {
	return cmp.Or(time.Duration(r.SilentAfter*float64(time.Second)), time.Minute)
}

// quiet returns the time since the last sign of life.
func (r Report) quiet() time.Duration { return time.Duration(r.Quiet * float64(time.Second)) }

// Silent reports whether the agent of the host has given no sign of life for SilentTime. An open connection is not one.
func (r Report) Silent() bool { return r.quiet() >= r.SilentTime() }

// StateText returns the state of the host in words, such as "up" or "silent for 3m0s, disabled".
func (r Report) StateText() string {
	state := "up"
	shown := r.quiet().Truncate(time.Second) // rounded, a host would be shown as silent before compute considers it silent
	switch {
	case r.StartFailed != "": // the conditions have the reason
		state = "start failed"
	case r.Silent():
		state = "silent for " + shown.String()
	case !r.Connected:
		state = "not connected for " + shown.String()
	case r.Down != "": // the conditions have the reason
		state = "hypervisor down"
	}
	if r.Dead {
		state = "down, declared by an operator"
	}
	if r.Disabled {
		state += ", disabled"
	}
	if r.Hypervisor == "fake" {
		state += ", FAKE"
	}
	return state
}
