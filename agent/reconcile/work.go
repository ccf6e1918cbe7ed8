package reconcile

import (
	"errors"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// warnAfter is the number of failures after which a server's fault becomes a condition of the host.
const warnAfter = 3

// works is the work on the servers that are not reconciled. The work on one server is a sequence of attempts, and an
// attempt is a sequence of effects, one at a time: after each, next decides from the whole state which effect comes
// then. So whatever a crash ended continues at the next start.
type works struct {
	*core
	*renamer
	byID     map[string]*work
	building int // number of attempts on assigned servers
}

// work is the state of the work on one server until it is reconciled.
type work struct {
	id            string
	failures      int       // attempts that failed
	buildFailures int       // builds that failed in the hypervisor
	retryAt       time.Time // earliest time of the next attempt
	waitingSince  time.Time // start of the wait for other servers to leave
	attempt       *attempt  // in progress; nil: none
}

// attempt is one attempt to reconcile a server: why it was made, and what it has done that the state of the host does
// not show.
type attempt struct {
	want      host.Server // the assignment; without an ID: none
	removal   host.Removal
	version   removalVersion
	effect    Effect // in progress, or held until the journal is written
	cancelled bool   // the assignments have changed, or are not followed any more

	verified  bool               // the allocation in Placement covers the assignment
	claimed   bool               // compute has the claim
	listed    []hypervisor.Guest // of the hypervisor; nil: not listed
	destroyed map[string]bool    // guests that the hypervisor has destroyed and not built since
	build     int                // rebuild count of a departed guest that was destroyed
	creating  bool               // the guest did not exist when its build began
	freed     bool               // the claims are freed
	refusal   error              // of the hypervisor, not yet reported
	departure *host.Guest        // result of a migration, not yet reported
	late      int                // guest reports whose number was too low
	report    reportWait
	final     bool // compute has the final report
}

// awaitReport is the effect of an attempt that waits until compute has a host report.
type awaitReport struct{}

func (awaitReport) effect() {}

func isAwaitReport(e Effect) bool {
	_, is := e.(awaitReport)
	return is
}

// reportWait is a wait for a host report.
type reportWait struct {
	version int  // of the report that compute must have; 0: none yet
	refused bool // compute has refused it: the state of the server can be reported nevertheless
}

// end records the result of an attempt.
func (w *works) end(j *work, err error) {
	a := j.attempt
	j.attempt, w.wake = nil, true
	if a.want.ID != "" {
		w.building--
	}
	if err == nil || a.cancelled {
		j.failures, j.buildFailures, j.waitingSince = 0, 0, time.Time{}
		return // dispatch checks whether more work is due
	}
	j.failures++
	j.retryAt = w.now.Add(w.backoff(j.failures))
	if _, refused := errors.AsType[*refusedError](err); refused {
		j.retryAt = w.now.Add(refusals.Wait(j.failures))
	}
	w.log("server not reconciled, will retry", "server", j.id, "attempts", j.failures, "error", err)
	if j.failures >= warnAfter {
		w.condition("server "+j.id, "server "+j.id+": "+fault.TextOf(err))
	}
}

// refusals is the wait after consecutive refusals of the hypervisor.
var refusals = backoff.Exponential{First: 5 * time.Second, Max: 5 * time.Minute}

// deadline returns the time of the next attempt that waits; zero when none waits.
func (w *works) deadline() (at time.Time) {
	for _, j := range w.byID {
		if j.attempt == nil && !j.retryAt.IsZero() {
			at = earlier(at, j.retryAt)
		}
	}
	return at
}

// deadlinePassed reports whether an attempt that waited can begin.
func (w *works) deadlinePassed() bool {
	at := w.deadline()
	return !at.IsZero() && !w.now.Before(at)
}

// refusedError is returned after the hypervisor refused a change and compute has the report. Compute usually then
// assigns the actual state. When it continues to assign the change, as for a guest left behind by a move, the agent
// tries again.
type refusedError struct{ why error }

// Error returns the hypervisor's message.
func (r *refusedError) Error() string { return fault.TextOf(r.why) }

// Unwrap returns the hypervisor's fault.
func (r *refusedError) Unwrap() error { return r.why }
