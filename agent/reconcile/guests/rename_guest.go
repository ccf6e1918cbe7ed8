package guests

import (
	"cmp"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// A guest whose id changes in the assignments is renamed in two steps: its devices and NUMA cells in one entry of the
// journal, then the guest in the hypervisor. This is done once, however often the assignments repeat it, and also if
// there is nothing to move.

// renamer moves guests from one id to another.
type renamer struct{ *state.Core }

// renameDue reports whether the guest of another id must still be renamed for an entry of the assignments.
func renameDue(want host.Server, renames map[string]journal.Rename) bool {
	r := renames[want.ID]
	return want.PreviousID != "" && want.PreviousID != want.ID && (r.Was != want.PreviousID || !r.Done)
}

// pendingRenames returns the entries with an unfinished rename, by their former id; until it is finished, no other
// work is done under the former id. A rename that was begun stays pending when the assignments no longer mention it.
func (n *renamer) pendingRenames() map[string]string {
	out, renames := map[string]string{}, n.State.Renames()
	for _, id := range slices.Sorted(maps.Keys(renames)) {
		r := renames[id]
		former := n.Assignments.Servers[r.Was]
		reversed := former.PreviousID == id && renameDue(former, renames)
		removed := n.Assignments.Remove[r.Was].PreviousID == id // the removal finishes the rename
		if !r.Done && !reversed && !removed {
			out[r.Was] = id
		}
	}
	var due []string
	for id, want := range n.Assignments.Servers {
		if renameDue(want, renames) {
			due = append(due, id)
		}
	}
	slices.Sort(due) // so that of two entries with one former id always the same one counts
	for _, id := range due {
		out[n.Assignments.Servers[id].PreviousID] = id
	}
	return out
}

// applyRename returns the next effect by which an entry takes over the guest of another id, or finishes an earlier
// rename; nil when there is nothing to rename. What the new id had before is freed. Conflict: both guests exist.
func (n *renamer) applyRename(want host.Server) (state.Effect, error) {
	renames := n.State.Renames()
	if !renameDue(want, renames) {
		return n.finishRename(want.ID, want.ID), nil
	}
	begun := renames[want.ID].Was == want.PreviousID
	if e := n.destroyLateOfTwo(want.ID, want.PreviousID, want.ID, cmp.Or(want.Server, want.ID), begun); e != nil {
		return e, nil
	}
	if begun {
		return state.Rename{Work: want.ID, Was: want.PreviousID, ID: want.ID, Server: want.Server}, nil
	}
	if e := n.finishConflictingRenames(want, renames); e != nil {
		return e, nil
	}
	_, occupied := n.State.Of(want.ID)
	_, arrives := n.State.Of(want.PreviousID)
	if g, exists := n.Guests[want.ID]; occupied && arrives && exists {
		return nil, fault.New(fault.Conflict, "guest %s must take the id %s, and guest %s (%s) has "+
			"it; compute's database may be an old one: stop the agent and end one of them with "+
			"`berth agent destroy --force`", want.PreviousID, want.ID, want.ID, g.Name)
	}
	if occupied && arrives {
		n.Free(want.ID)
	}
	n.renameClaims(want)
	return state.Rename{Work: want.ID, Was: want.PreviousID, ID: want.ID, Server: want.Server}, nil
}

// renameClaims records the first step of a rename.
func (n *renamer) renameClaims(want host.Server) {
	n.Record(journal.Renamed(want.PreviousID, want.ID, false))
	n.Set = n.Set.Rename(resource.ConsumerID(want.PreviousID), resource.ConsumerID(want.ID))
	for _, id := range []string{want.PreviousID, want.ID} {
		delete(n.Acked, id)
		delete(n.UnreportedFailures, id)
	}
	n.Log("guest renamed", "was", want.PreviousID, "id", want.ID)
	n.ReportChanged()
}

// finishConflictingRenames returns the effect that finishes an earlier rename that shares an id with want's; nil when
// there is none. A rename that want reverses is not finished first.
func (n *renamer) finishConflictingRenames(want host.Server, renames map[string]journal.Rename) state.Effect {
	for _, id := range slices.Sorted(maps.Keys(renames)) {
		was := renames[id].Was
		if was == want.ID || id != want.ID && id != want.PreviousID && was != want.PreviousID {
			continue
		}
		if e := n.finishRename(want.ID, id); e != nil {
			return e
		}
	}
	return nil
}

// finishRename returns the effect, as one of a work, of the second step of a rename to id that the assignments no
// longer mention; nil when there is none. It must precede other work under that id: the claims of id belong to the
// guest that still has the old id.
func (n *renamer) finishRename(work, id string) state.Effect {
	r := n.State.Renames()[id]
	if r.Was == "" || r.Done {
		return nil
	}
	server := cmp.Or(n.Guests[r.Was].Server, r.Was)
	if e := n.destroyLateOfTwo(work, r.Was, id, server, true); e != nil {
		return e
	}
	if server == id {
		server = ""
	}
	return state.Rename{Work: work, Was: r.Was, ID: id, Server: server}
}

// destroyLateOfTwo returns the effect, as one of a work, that destroys a late guest that would stop a rename, because
// both ids have a guest; nil if there is none. The late guest has the id of the server: a request to build it, whose
// answer was lost, was executed after its server had left the host or had got the other id. The other id is that of a
// migration. No guest is built with it, so its guest was renamed and has the disk of the server. Before the rename has
// begun, the guest with the id of the server may also be another one of it; it is late if the journal has the server as
// ended, or had so at the start.
func (n *renamer) destroyLateOfTwo(work, was, id, server string, begun bool) state.Effect {
	_, formerExists := n.Guests[was]
	_, exists := n.Guests[id]
	_, claimed := n.State.Of(server)
	late := begun || n.State.Ended(server) && !claimed || n.LateAtStart[server] && server == id
	if !formerExists || !exists || !late || server != was && server != id {
		return nil
	}
	n.Warn("guest appeared after its server had left or got another id: it is destroyed", "server", server)
	return state.Destroy{Work: work, ID: server}
}

// renamed records that the hypervisor has renamed a guest. The server has ended under its former id: a guest that
// appears with it later is late.
func (n *renamer) renamed(e state.Rename) {
	if g, exists := n.Guests[e.Was]; exists {
		g.ID, g.Server = e.ID, e.Server
		delete(n.Guests, e.Was)
		n.Guests[e.ID] = g
		n.GuestEpoch++
		n.ReportChanged()
	}
	n.Record(journal.Renamed(e.Was, e.ID, true))
	delete(n.LateAtStart, e.ID)
	if !n.State.Has(e.Was) {
		n.Record(journal.Removed(e.Was, n.Now))
	}
}
