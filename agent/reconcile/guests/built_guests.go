package guests

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// The journal has which guests were built here. Such a guest has a disk: if the hypervisor does not list it, it is not
// built as a new one, and its devices are not freed, until compute names it for removal or a user rebuilds the server.

// recordBuilt records in the journal that a guest was built here, or that it has departed.
func recordBuilt(c *state.Core, g hypervisor.Guest) {
	build, built := c.State.Built(g.ID)
	_, known := c.State.Of(g.ID)
	switch {
	case g.Departed && built:
		c.Record(journal.Unbuilt(g.ID))
	case !g.Departed && known && (!built || build < g.Build):
		c.Record(journal.Built(g.ID, g.Build))
	}
}

// recordListed records the guests that the hypervisor lists as built, except those on which work is in progress: they
// may be half built.
func recordListed(w *Works) {
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		if j := w.byID[id]; j == nil || j.attempt == nil {
			recordBuilt(w.Core, w.Guests[id])
		}
	}
}

// isMissing reports whether the guest of a server was built here and the hypervisor does not list it. A rebuild that
// the user has requested since makes a new guest.
func isMissing(c *state.Core, want host.Server) bool {
	_, there := c.Guests[want.ID]
	build, built := c.State.Built(want.ID)
	return built && !there && want.Build <= build
}

// exists reports whether a server has a guest here that can be changed, or one that is missing.
func exists(w *Works, want host.Server) bool {
	g, there := w.Guests[want.ID]
	return there && !g.Departed || isMissing(w.Core, want)
}

// removeLate returns the next effect for a guest that appears after its server was removed here; nil when it is gone.
func removeLate(w *Works, j *work) state.Effect {
	if _, there := w.Guests[j.id]; there && !j.attempt.destroyed[j.id] {
		w.Warn("guest appeared after its server was removed here: it is destroyed", "server", j.id)
		return state.Destroy{Work: j.id, ID: j.id}
	}
	if w.LateAtStart[j.id] {
		delete(w.LateAtStart, j.id)
		w.Free(j.id)
		w.ForgetEntries(j.id)
	}
	return nil
}

// removeLateOfReturning returns the effects that find and destroy a late guest of a server that has left this host and
// comes here again with its disk, that of another guest or of an image; nil when there is none. Such a guest is not
// adopted, because it has another disk. One that runs is kept: it may be that of the server, and the journal be one
// from a backup.
func removeLateOfReturning(w *Works, j *work) state.Effect {
	a, id := j.attempt, j.id
	if a.want.DiskFrom == nil && a.want.DiskImage == "" || !w.State.Ended(id) || a.destroyed[id] {
		return nil
	}
	if a.listed == nil {
		return state.ListGuests{Work: id}
	}
	i := slices.IndexFunc(a.listed, func(g hypervisor.Guest) bool { return g.ID == id && !g.Departed })
	if i < 0 {
		return nil
	}
	if w.Guests[id] = a.listed[i]; !a.listed[i].Stopped {
		return nil
	}
	w.Warn("guest appeared after its server was removed here, and the server returns: it is destroyed", "server", id)
	return state.Destroy{Work: id, ID: id}
}

// setLostCondition sets the conditions of guests of which the hypervisor has lost something, and of those that it does
// not list and that the assignments do not mention.
func setLostCondition(w *Works) {
	var lost []condition.Condition
	add := func(id, text string) { lost = append(lost, condition.New(condition.LostGuest, id, text)) }
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		if g := w.Guests[id]; g.Lost != "" {
			add(id, fmt.Sprintf("guest %s (%s): %s; it is made again around its disk when its server is assigned here", id,
				g.Name, g.Lost))
		}
	}
	for _, id := range w.State.Servers() {
		_, there := w.Guests[id]
		_, built := w.State.Built(id)
		if built && !there && w.Assignments.Received && w.NotFollowed == "" && !w.Assigned(id) &&
			!state.IsReplaced(w.Core, id) {
			add(id, fmt.Sprintf("guest %s was built here, the hypervisor does not list it, and compute's assignments do not "+
				"mention it, so its devices stay claimed; run `berth agent destroy %s` to free them", id, id))
		}
	}
	if more := len(lost) - namedGuests; more > 0 {
		lost = lost[:namedGuests]
		add("", fmt.Sprintf("%d more guests are missing or have lost something", more))
	}
	state.SetConditions(w.Core, string(condition.LostGuest), lost)
}

// restartWaits is the wait before the next start of a guest that has ended again after such starts.
var restartWaits = backoff.Exponential{First: 5 * time.Second, Max: 5 * time.Minute}

// stableTime is how long a guest must have run so that its earlier restarts do not count any more.
const stableTime = 10 * time.Minute

// restartWait returns how long the next start of a guest must wait; the first one waits for nothing.
func restartWait(w *Works, id string) time.Duration {
	r := w.restarts[id]
	if r.count == 0 {
		return 0
	}
	wait := restartWaits.Wait(r.count)
	if w.Now.Sub(r.last) > wait+stableTime {
		delete(w.restarts, id)
		return 0
	}
	return r.last.Add(wait).Sub(w.Now)
}

// noteRestart notes why a guest is changed, if no user has requested that.
func noteRestart(w *Works, j *work, g hypervisor.Guest) {
	a := j.attempt
	switch {
	case j.requested:
		delete(w.restarts, j.id)
	case g.Lost != "":
		a.unrequested.why = g.Lost + "; it was made again around its disk"
	case starts(a.want.Power) && g.Stopped && !g.ShutDown && g.Build >= a.want.Build:
		a.unrequested.why = "the guest did not run although its server must run; it was started again"
	}
}

// guestStarted records that a guest was changed or started again without a request.
func guestStarted(w *Works, j *work, g hypervisor.Guest) {
	if j.attempt.unrequested.why == "" {
		return
	}
	j.happened = j.attempt.unrequested.why + " at " + w.Now.UTC().Format(time.RFC3339)
	j.attempt.unrequested.why = ""
	if !g.Stopped {
		r := w.restarts[g.ID]
		w.restarts[g.ID] = restarts{r.count + 1, w.Now}
	}
}

// waitForRestart makes the attempt report that a guest has ended again and is started later.
func waitForRestart(w *Works, j *work, wait time.Duration) {
	j.attempt.refusal = fault.New(fault.Unavailable, "the guest has ended again after %d restarts",
		w.restarts[j.id].count)
	j.attempt.retryIn = wait
}

// reportClaimed returns the effect that reports the claim of a server before its guest is started.
func reportClaimed(w *Works, j *work) state.Effect {
	id := j.attempt.want.ID
	return w.Report(id, id, w.guestReport(j.attempt, host.Claimed, w.Set.Held(resource.ConsumerID(id))))
}

// missingReport returns the report of a guest that was built here and that the hypervisor does not have.
func missingReport(w *Works, a *attempt) host.Guest {
	report := w.guestReport(a, host.Refused, w.Set.Held(resource.ConsumerID(a.want.ID)))
	report.Build, _ = w.State.Built(a.want.ID)
	report.Power = host.Off
	return report
}

// endServer records that a server has left the host whose guest was removed under another id, such as that of a
// migration: a guest that appears later may have the id of the server.
func endServer(c *state.Core, id string) {
	_, there := c.Guests[id]
	if id != "" && !there && !c.State.Has(id) && !c.Assigned(id) {
		c.Record(journal.Removed(id, c.Now))
	}
}
