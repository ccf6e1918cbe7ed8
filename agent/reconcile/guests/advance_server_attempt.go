package guests

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// warnAfter is the number of failures after which a server's fault becomes a condition of the host.
const warnAfter = 3

// advance emits the next effect of an attempt, or ends the attempt.
func (w *Works) advance(j *work) {
	e, err := w.next(j)
	if err != nil || e == nil {
		w.end(j, err)
		return
	}
	switch j.attempt.effect = e; e.(type) {
	case state.AwaitReport:
	case state.ReadAllocation, state.ListGuests:
		w.Do(e) // a read need not wait for the journal
	default:
		w.DoAfterWrite(e)
	}
}

// next returns the next effect of an attempt; nil when the server is reconciled. A fault ends the attempt.
func (w *Works) next(j *work) (state.Effect, error) {
	switch a := j.attempt; {
	case a.final:
		return nil, nil
	case a.want.ID != "":
		return w.ensure(j)
	case a.removal.ID != "":
		return w.remove(j), nil
	case a.unrequested.late:
		return removeLate(w, j), nil
	}
	return w.dropClaims(j), nil
}

// EffectDone continues an attempt after its effect has ended. What the effect did is recorded also if the attempt was
// cancelled.
func (w *Works) EffectDone(e state.WorkDone) {
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
	} else {
		w.WantSync = w.WantSync || changesGuest(effect) // the hypervisor may have done a part
	}
	if a.cancelled || err != nil {
		w.end(j, err)
		return
	}
	w.advance(j)
}

// changesGuest reports whether an effect changes a guest of the hypervisor.
func changesGuest(e state.Effect) bool {
	switch e := e.(type) {
	case state.Upload:
		return e.To.Copy
	case state.Build, state.Receive, state.Migrate, state.SettleMigration, state.Rename, state.Destroy:
		return true
	}
	return false
}

// HostReported continues the attempts that wait for the host report of a version, or for an earlier one. While another
// agent serves the host it continues none: they are about to be cancelled.
func (w *Works) HostReported(version int, err error) {
	if w.Fenced {
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

// AwaitingReport reports whether an attempt waits for a host report.
func (w *Works) AwaitingReport() bool {
	for _, j := range w.byID {
		if j.attempt != nil && isAwaitReport(j.attempt.effect) {
			return true
		}
	}
	return false
}

// end records the result of an attempt.
func (w *Works) end(j *work, err error) {
	a := j.attempt
	j.attempt, w.Wake = nil, true
	if a.want.ID != "" {
		used, _ := slots(w, a.want)
		*used--
	}
	if err == nil || a.cancelled {
		j.failures, j.buildFailures, j.waitingSince = 0, 0, time.Time{}
		return // dispatch checks whether more work is due
	}
	j.failures++
	j.retryAt = w.Now.Add(w.Backoff(j.failures))
	_, refused := errors.AsType[*refusedError](err)
	_, shutDown := errors.AsType[shutDownError](err)
	if _, upload := errors.AsType[*uploadError](err); refused || shutDown || upload {
		j.retryAt = w.Now.Add(max(a.retryIn, w.Config.Times.Refusals().Wait(j.failures)))
	}
	w.Log("server not reconciled, will retry", "server", j.id, "attempts", j.failures, "error", err)
	if j.failures >= warnAfter {
		w.Condition(condition.ServerFailed, j.id, "server "+j.id+": "+fault.TextOf(err))
	}
}
