package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
)

// unassigned lists the guests that exist and that the assignments do not mention, by id. It is empty before compute
// has sent assignments, and while they are not followed.
func (w *works) unassigned() []string {
	if !w.assignments.received || w.notFollowed != "" {
		return nil
	}
	pending := w.pendingRenames()
	var list []string
	for id := range w.guests {
		j := w.byID[id]
		if _, renamed := pending[id]; renamed || w.assigned(id) || isLate(w.core, id) || j != nil && j.attempt != nil {
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
func (w *works) setUnassignedCondition() {
	list := w.unassigned()
	var sentences []string
	for _, id := range list[:min(len(list), namedGuests)] {
		g := w.guests[id]
		var devices []string
		for _, d := range g.Devices {
			devices = append(devices, d.ID.String())
		}
		with := ""
		if len(devices) > 0 {
			with = " with " + strings.Join(devices, ", ")
		}
		sentences = append(sentences,
			fmt.Sprintf("guest %s (%s) exists here%s, and compute's assignments do not mention it, so it is left alone; "+
				"run `berth agent destroy %s` to end it", id, g.Name, with, id))
	}
	if more := len(list) - namedGuests; more > 0 {
		sentences = append(sentences, fmt.Sprintf("%d more guests exist here that compute's assignments do not mention",
			more))
	}
	w.condition("unassigned", sentences...)
}

// presentGuests lists the guests of the host for the report, with those that were built here and that the hypervisor
// does not list: they may exist. Before the first assignments the agent reports none of them as assigned; otherwise
// compute could free the allocations of a guest that is assigned elsewhere.
func (w *works) presentGuests() []host.Present {
	unassigned, known := w.unassigned(), w.assignments.received || w.notFollowed != ""
	var list []host.Present
	for _, id := range slices.Sorted(maps.Keys(w.guests)) {
		list = append(list, host.Present{ID: id, Server: w.guests[id].Server,
			Assigned: known && !slices.Contains(unassigned, id)})
	}
	for _, id := range w.state.Servers() {
		if mayExist(w, id) {
			list = append(list, host.Present{ID: id, Server: w.assignments.servers[id].Server,
				Assigned: known && (w.notFollowed != "" || w.assigned(id))})
		}
	}
	slices.SortFunc(list, func(a, b host.Present) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// mayExist reports whether a guest was built here and the hypervisor does not list it, neither under this id nor under
// the former one of an unfinished rename. One that has just been destroyed does not exist.
func mayExist(w *works, id string) bool {
	_, there := w.guests[id]
	_, built := w.state.Built(id)
	rename := w.state.Renames()[id]
	if !built || there || rename.Was != "" && !rename.Done || isReplaced(w.core, id) {
		return false
	}
	for _, j := range w.byID {
		if j.attempt != nil && j.attempt.destroyed[id] {
			return false
		}
	}
	return true
}
