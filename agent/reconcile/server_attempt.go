package reconcile

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// warnAfter is the number of failures after which a server's fault becomes a condition of the host.
const warnAfter = 3

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

// advance emits the next effect of an attempt, or ends the attempt.
func (w *works) advance(j *work) {
	e, err := w.next(j)
	if err != nil || e == nil {
		w.end(j, err)
		return
	}
	switch j.attempt.effect = e; e.(type) {
	case awaitReport:
	case ReadAllocation, ListGuests:
		w.do(e) // a read need not wait for the journal
	default:
		w.doAfterWrite(e)
	}
}

// next returns the next effect of an attempt; nil when the server is reconciled. A fault ends the attempt.
func (w *works) next(j *work) (Effect, error) {
	switch a := j.attempt; {
	case a.final:
		return nil, nil
	case a.want.ID != "":
		return w.ensure(j)
	case a.removal.ID != "":
		return w.remove(j), nil
	}
	return w.dropClaims(j), nil
}

// effectDone continues an attempt after its effect has ended. What the effect did is recorded also if the attempt was
// cancelled.
func (w *works) effectDone(e WorkDone) {
	j := w.byID[e.Work]
	if j == nil || j.attempt == nil || j.attempt.effect == nil {
		return
	}
	a := j.attempt
	effect := a.effect
	a.effect = nil
	var err error
	if !a.cancelled || e.Err == nil {
		err = w.apply(j, effect, e)
	}
	if a.cancelled || err != nil {
		w.end(j, err)
		return
	}
	w.advance(j)
}

// hostReported continues the attempts that wait for the host report of a version, or for an earlier one. While another
// agent serves the host it continues none: they are about to be cancelled.
func (w *works) hostReported(version int, err error) {
	if w.fenced {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		j := w.byID[id]
		if j.attempt == nil || !isAwaitReport(j.attempt.effect) || j.attempt.report.version > version {
			continue
		}
		j.attempt.effect, j.attempt.report.refused = nil, err != nil
		if fault.Is(err, fault.Unavailable) {
			w.end(j, err)
			continue
		}
		w.advance(j)
	}
}

// awaitingReport reports whether an attempt waits for a host report.
func (w *works) awaitingReport() bool {
	for _, j := range w.byID {
		if j.attempt != nil && isAwaitReport(j.attempt.effect) {
			return true
		}
	}
	return false
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

// refusedError is returned after the hypervisor refused a change and compute has the report. Compute usually then
// assigns the actual state. When it continues to assign the change, as for a guest left behind by a move, the agent
// tries again.
type refusedError struct{ why error }

// Error returns the hypervisor's message.
func (r *refusedError) Error() string { return fault.TextOf(r.why) }

// Unwrap returns the hypervisor's fault.
func (r *refusedError) Unwrap() error { return r.why }
