package guests

import (
	"slices"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// An agent destroys a guest only when compute's assignments name it in Remove. A guest that they do not mention keeps
// running with its devices, and a condition names it: compute's database may be an old one, or a new one.

// remove returns the next effect for a guest that compute has named for removal: it is destroyed, its devices are
// freed, and it is reported gone. The host report with the free devices is sent first; otherwise compute would not
// offer them for a moment. A guest that never existed is reported gone too, because compute waits for the report.
func (w *Works) remove(j *work) state.Effect {
	r := j.attempt.removal
	for _, id := range []string{r.ID, r.PreviousID} {
		if e := w.finishRename(j.id, id); e != nil {
			return e
		}
	}
	for _, id := range w.removedIDs(r) {
		if e := w.release(j, id); e != nil {
			return e
		}
	}
	if w.mustAwaitReport(j.attempt) {
		return state.AwaitReport{}
	}
	return w.Report(j.id, r.ID, host.Guest{Phase: host.Gone, Removed: w.removedIDs(r)})
}

// removedIDs lists the ids under which the guest of a removal may be known here.
func (w *Works) removedIDs(r host.Removal) []string {
	if _, wanted := w.Assignments.Servers[r.PreviousID]; r.PreviousID == "" || r.PreviousID == r.ID || wanted {
		return []string{r.ID}
	}
	return []string{r.ID, r.PreviousID}
}

// dropClaims returns the next effect for a server that the assignments do not mention and that has no guest: its
// claims are freed, and it is reported gone. The guests are listed again first, because a guest must not lose its
// devices: a guest that exists after all is kept.
func (w *Works) dropClaims(j *work) state.Effect {
	if e := w.finishRename(j.id, j.id); e != nil {
		return e
	}
	a := j.attempt
	if a.listed == nil {
		return state.ListGuests{Work: j.id}
	}
	if i := slices.IndexFunc(a.listed, func(g hypervisor.Guest) bool { return g.ID == j.id }); i >= 0 {
		w.Guests[j.id] = a.listed[i]
		return nil
	}
	if w.Config.ReceivesGuests && !a.destroyed[j.id] {
		return state.Forget{Work: j.id, ID: j.id}
	}
	if !a.freed {
		if e := resetVFs(w, j, j.id); e != nil {
			return e
		}
		w.Free(j.id)
		a.freed = true
	}
	if w.mustAwaitReport(a) {
		return state.AwaitReport{}
	}
	return w.Report(j.id, j.id, host.Guest{Phase: host.Gone, Removed: []string{j.id}})
}

// release returns the effect that destroys a guest; nil when there is none any more, and its devices are freed.
// It does nothing for a server without guest and claims.
func (w *Works) release(j *work, id string) state.Effect {
	g, exists := w.Guests[id]
	if _, taken := w.State.Of(id); !exists && !taken {
		return nil
	}
	if !j.attempt.destroyed[id] {
		if exists && !g.Stopped {
			w.MarkUsed(id)
		}
		return state.Destroy{Work: j.id, ID: id}
	}
	if e := resetVFs(w, j, id); e != nil {
		return e
	}
	w.Free(id)
	return nil
}

// mustAwaitReport reports whether compute must have a host report with the present devices first.
func (w *Works) mustAwaitReport(a *attempt) bool {
	if a.report.version == 0 {
		a.report.version = w.Version
	}
	return w.Delivered < a.report.version && !a.report.refused
}

// setFailure records that a server cannot run here; ensure then reports it. A guest that was built here and that the
// hypervisor does not list may exist: a failure would destroy it, so the change is refused instead.
func setFailure(w *Works, j *work, message string) {
	_, there := w.Guests[j.id]
	if _, built := w.State.Built(j.id); built && !there {
		j.attempt.refusal, j.attempt.listed = fault.New(fault.Conflict, "%s", message), nil
		return
	}
	w.UnreportedFailures[j.id] = state.Outcome{Want: j.attempt.want, Message: message}
}

// fail returns the next effect for a server that cannot run here: everything of it is removed, and it is reported as
// failed.
func (w *Works) fail(j *work, message string) state.Effect {
	if e := w.release(j, j.id); e != nil {
		return e
	}
	if w.mustAwaitReport(j.attempt) {
		return state.AwaitReport{}
	}
	removed := []string{j.id}
	if was := j.attempt.want.PreviousID; was != "" && was != j.id { // renamed before, or never here
		removed = append(removed, was)
	}
	return w.Report(j.id, j.id, host.Guest{Phase: host.Failed, Message: message, Removed: removed})
}
