package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// An agent destroys a guest only when compute's assignments name it in Remove. A guest that they do not mention keeps
// running with its devices, and a condition names it: compute's database may be an old one, or a new one.

// leavingIDs lists the entries to remove, by id: those that compute has named for removal and not yet confirmed as
// gone, and those that the assignments do not mention and that have no guest, such as claims whose guest was never
// built. a.mu is held.
func (a *Agent) leavingIDs() []string {
	out := map[string]bool{}
	for id, r := range a.assignments.remove {
		if at, told := a.reportedRemovals[id]; !told || at != a.assignments.version(r) {
			out[id] = true
		}
	}
	state := a.journal.State()
	for _, id := range slices.Concat(state.Servers(), state.Gone()) {
		_, wanted := a.assignments.servers[id]
		_, named := a.assignments.remove[id]
		if _, exists := a.guests[id]; !wanted && !named && !exists && !a.formerName(id) {
			out[id] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// formerName reports whether a removal names this id as the guest's former one. a.mu is held.
func (a *Agent) formerName(id string) bool {
	for _, r := range a.assignments.remove {
		if r.PreviousID == id {
			return true
		}
	}
	return false
}

// removalVersion identifies one request for a removal: compute repeats it at each revision until it receives the
// result.
type removalVersion struct {
	position host.Position
	removal  host.Removal
}

func (l assignments) version(r host.Removal) removalVersion { return removalVersion{l.position, r} }

// removeGuest destroys a guest that compute has named for removal, frees its devices and reports it gone. The report
// with the free devices is sent first; otherwise compute would not offer them for a moment. A guest that never existed
// is reported gone too, because compute waits for the report.
func (a *Agent) removeGuest(ctx context.Context, r host.Removal, at removalVersion) error {
	for _, id := range []string{r.ID, r.PreviousID} {
		if err := a.finishRename(ctx, id); err != nil {
			return err
		}
	}
	ids := []string{r.ID}
	if r.PreviousID != "" && r.PreviousID != r.ID && !a.isWanted(r.PreviousID) {
		ids = append(ids, r.PreviousID)
	}
	for _, id := range ids {
		if err := a.release(ctx, id); err != nil {
			return err
		}
	}
	if err := a.reportNow(ctx); err != nil {
		return err
	}
	if err := a.reportGuest(ctx, r.ID, host.Guest{Phase: host.Gone}); err != nil {
		return err
	}
	a.mu.Lock()
	a.reportedRemovals[r.ID] = at
	a.mu.Unlock()
	for _, id := range ids {
		if err := a.journal.Remove(id); err != nil {
			return err
		}
	}
	return nil
}

// dropClaims frees the claims of a server that the assignments do not mention and that has no guest, and reports it
// gone. It asks the hypervisor again first, because a guest must not lose its devices: a guest that exists after all
// is kept.
func (a *Agent) dropClaims(ctx context.Context, id string) error {
	if err := a.finishRename(ctx, id); err != nil {
		return err
	}
	guests, err := a.o.Hypervisor.Guests(ctx)
	if err != nil {
		return fault.Wrap("", "hypervisor.Guests", err)
	}
	if i := slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == id }); i >= 0 {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.guests[id] = guests[i]
		return nil
	}
	if err := a.freeClaims(id); err != nil {
		return err
	}
	if err := a.reportNow(ctx); err != nil {
		return err
	}
	if err := a.reportGuest(ctx, id, host.Guest{Phase: host.Gone}); err != nil {
		return err
	}
	return a.journal.Remove(id)
}

func (a *Agent) isWanted(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, wanted := a.assignments.servers[id]
	return wanted
}

// unassigned lists the guests that exist and that the assignments do not mention, by id. It is empty before compute
// has sent assignments, and while they are not followed. a.mu is held.
func (a *Agent) unassigned() []string {
	if !a.assignments.received || a.notFollowed != "" {
		return nil
	}
	owing := a.pendingRenames()
	var list []string
	for _, id := range slices.Sorted(maps.Keys(a.guests)) {
		j := a.serverWorks[id]
		if _, renamed := owing[id]; renamed || a.assigned(id) || j != nil && j.cancel != nil {
			continue
		}
		list = append(list, id)
	}
	return list
}

// assigned reports whether the assignments name a guest, as a server or for removal. a.mu is held.
func (a *Agent) assigned(id string) bool {
	_, wanted := a.assignments.servers[id]
	_, named := a.assignments.remove[id]
	return wanted || named || a.formerName(id)
}

// namedGuests is the number of unassigned guests that conditions name; of further ones they give the number.
const namedGuests = 20

// setUnassignedCondition sets the condition of guests that the assignments do not mention. a.mu is held.
func (a *Agent) setUnassignedCondition() {
	list := a.unassigned()
	var sentences []string
	for _, id := range list[:min(len(list), namedGuests)] {
		g := a.guests[id]
		var devices []string
		for _, d := range g.Devices {
			devices = append(devices, d.Address.String())
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
	a.condition("unassigned", sentences...)
}

// presentGuests lists the guests of the host for the report. Before the first assignments the agent reports none of
// them as assigned; otherwise compute could free the allocations of a guest that is assigned elsewhere. a.mu is held.
func (a *Agent) presentGuests() []host.Present {
	unassigned, known := a.unassigned(), a.assignments.received || a.notFollowed != ""
	var list []host.Present
	for _, id := range slices.Sorted(maps.Keys(a.guests)) {
		g := a.guests[id]
		list = append(list, host.Present{ID: id, Server: g.Server, Assigned: known && !slices.Contains(unassigned, id)})
	}
	return list
}
