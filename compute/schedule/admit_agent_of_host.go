package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// Silence is the maximum age of the last sign of life of a host's agent, unless [DEFAULT] service_down_time is set.
	// Agents send one every ten seconds.
	Silence = time.Minute

	// Reconnect is how long the admitted start of an agent has to reconnect before a start that continues its journal
	// on another machine replaces it. An agent waits at most 15 s between two attempts and notices a silent connection
	// after 30 s.
	Reconnect = time.Minute
)

// Sender is the start of an agent that requests to serve a host.
type Sender struct {
	Instance string   // of the agent's journal
	Start    string   // of its process
	Previous []string // earlier starts of the journal, from the last one that compute acknowledged
	LockID   string   // machine and directory of the journal; empty when unknown
}

// Liveness is what compute has observed of the admitted start since compute itself started. It is measured with the
// monotonic clock. An open connection is not a sign of life: the process at its end may be stopped.
type Liveness struct {
	Quiet   time.Duration // since the last report or sign of life, or the start of compute
	Silence time.Duration // the value of Quiet from which on the start counts as silent; 0: the constant
	// how long the start has to reconnect before one that continues its journal replaces it; 0: the constant
	Reconnect time.Duration
}

// Admit returns why a start of an agent may not serve the host now, or an empty string if it may. wait is the time
// after which a start that continues the journal of the admitted one may retry; it is 0 for any other start. Only one
// start may serve a host, because two would build every guest twice.
func (h Host) Admit(from Sender, seen Liveness) (refusal string, wait time.Duration) {
	silence := cmp.Or(seen.Silence, Silence)
	continues := h.Instance == from.Instance && (h.Start == "" || slices.Contains(from.Previous, h.Start))
	switch {
	case h.Instance == "" || h.Instance == from.Instance && h.Start == from.Start:
		return "", 0
	case continues && (h.Start == "" || h.LockID == from.LockID && h.LockID != ""):
		return "", 0 // the journal's lock proves that the earlier process has ended
	case continues:
		silence = min(silence, cmp.Or(seen.Reconnect, Reconnect))
	}
	who := "instance " + h.Instance
	if h.Instance == from.Instance {
		who = "another start of the same journal, so the agent's directory or its machine was copied"
	}
	if seen.Quiet >= silence {
		return "", 0
	}
	left := silence - seen.Quiet
	if continues {
		wait = left
	}
	return fmt.Sprintf("another agent serves host %s: %s, last seen %s ago. Stop it, or give this host another name; "+
		"if it is gone for good, or its journal is lost, this one can take its place in %s",
		h.Name, who, seen.Quiet.Round(time.Second), left.Round(time.Second)), wait
}
