package guests

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
)

// Unassigned lists the guests that exist and that the assignments do not mention, by id. It is empty before compute
// has sent assignments, and while they are not followed.
func (w *Works) Unassigned() []string {
	if !w.Assignments.Received || w.NotFollowed != "" {
		return nil
	}
	pending := w.pendingRenames()
	var list []string
	for id := range w.Guests {
		j := w.byID[id]
		if _, renamed := pending[id]; renamed || w.Assigned(id) || state.IsLate(w.Core, id) || j != nil && j.attempt != nil {
			continue
		}
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// namedGuests is the number of unassigned guests that conditions name; of further ones they give the number.
const namedGuests = 20

// setUnassignedCondition sets the condition of guests that the assignments do not mention.
func (w *Works) setUnassignedCondition() {
	list := w.Unassigned()
	var unassigned []condition.Condition
	add := func(id, text string) {
		unassigned = append(unassigned, condition.New(condition.UnassignedGuest, id, text))
	}
	for _, id := range list[:min(len(list), namedGuests)] {
		g := w.Guests[id]
		var devices []string
		for _, d := range g.Devices {
			devices = append(devices, d.ID.String())
		}
		with := ""
		if len(devices) > 0 {
			with = " with " + strings.Join(devices, ", ")
		}
		add(id, fmt.Sprintf("guest %s (%s) exists here%s, and compute's assignments do not mention it, so it is left alone; "+
			"run `berth agent destroy %s` to end it", id, g.Name, with, id))
	}
	if more := len(list) - namedGuests; more > 0 {
		add("", fmt.Sprintf("%d more guests exist here that compute's assignments do not mention", more))
	}
	state.SetConditions(w.Core, string(condition.UnassignedGuest), unassigned)
}

// PresentGuests lists the guests of the host for the report, with those that were built here and that the hypervisor
// does not list: they may exist. Before the first assignments the agent reports none of them as assigned; otherwise
// compute could free the allocations of a guest that is assigned elsewhere. Work on a guest does not make it assigned:
// an unfinished rename is finished also if the assignments do not mention it.
func (w *Works) PresentGuests() []host.Present {
	known, pending := w.Assignments.Received || w.NotFollowed != "", w.pendingRenames()
	var list []host.Present
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		later, renamed := pending[id]
		assigned := w.NotFollowed != "" || w.Assigned(id) || renamed && w.Assigned(later) || state.IsLate(w.Core, id)
		list = append(list, host.Present{ID: id, Server: w.Guests[id].Server, Assigned: known && assigned})
	}
	for _, id := range w.State.Servers() {
		if mayExist(w, id) {
			list = append(list, host.Present{ID: id, Server: w.Assignments.Servers[id].Server,
				Assigned: known && (w.NotFollowed != "" || w.Assigned(id))})
		}
	}
	slices.SortFunc(list, func(a, b host.Present) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// mayExist reports whether a guest was built here and the hypervisor does not list it, neither under this id nor under
// the former one of an unfinished rename. One that has just been destroyed does not exist.
func mayExist(w *Works, id string) bool {
	_, there := w.Guests[id]
	_, built := w.State.Built(id)
	rename := w.State.Renames()[id]
	if !built || there || rename.Was != "" && !rename.Done || state.IsReplaced(w.Core, id) {
		return false
	}
	for _, j := range w.byID {
		if j.attempt != nil && j.attempt.destroyed[id] {
			return false
		}
	}
	return true
}
