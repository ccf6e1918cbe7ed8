package loop

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// renameDue reports whether an entry of the assignments has yet to take over the guest of another id. a.mu is held.
func renameDue(want host.Server, renames map[string]journal.Rename) bool {
	r := renames[want.ID]
	return want.PreviousID != "" && want.PreviousID != want.ID && (r.Was != want.PreviousID || !r.Done)
}

// pendingRenames returns the entries with an unfinished rename, by their former id; until it is finished, no other
// work is done under the former id. A rename that was begun stays pending when the assignments no longer mention it.
// a.mu is held.
func (a *Agent) pendingRenames() map[string]string {
	out, renames := map[string]string{}, a.journal.State().Renames()
	for id, r := range renames {
		back := a.assignments.servers[r.Was]
		goesBack := back.PreviousID == id && renameDue(back, renames)
		goes := a.assignments.remove[r.Was].PreviousID == id // the removal finishes the rename
		if !r.Done && !goesBack && !goes {
			out[r.Was] = id
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.assignments.servers)) {
		if want := a.assignments.servers[id]; renameDue(want, renames) {
			out[want.PreviousID] = id
		}
	}
	return out
}

// applyRename moves a guest to another id: devices and NUMA cells in one journal entry, then the guest. It is done
// once, however often the assignments repeat it, and whether or not there was anything to move. What the new id had
// before is freed.
func (a *Agent) applyRename(ctx context.Context, want host.Server) error {
	a.mu.Lock()
	renames := a.journal.State().Renames()
	due, begun := renameDue(want, renames), renames[want.ID].Was == want.PreviousID
	_, had := a.journal.State().Of(want.ID)
	_, comes := a.journal.State().Of(want.PreviousID)
	a.mu.Unlock()
	if !due {
		return a.finishRename(ctx, want.ID)
	}
	if !begun {
		if err := a.finishConflictingRenames(ctx, want, renames); err != nil {
			return err
		}
		if g, exists := a.guest(want.ID); had && comes && exists {
			return fault.New(fault.Conflict, "loop.takeOver", "guest %s must take the id %s, and guest %s (%s) has it; "+
				"compute's database may be an old one: stop the agent and end one of them with "+
				"`berth agent destroy --force`", want.PreviousID, want.ID, want.ID, g.Name)
		}
		if had && comes {
			if err := a.freeClaims(want.ID); err != nil {
				return err
			}
		}
		if err := a.renameClaims(want); err != nil {
			return err
		}
	}
	return a.renameGuest(ctx, want.PreviousID, want.ID, want.Server)
}

// renameGuest does the second part of a rename: the guest in the hypervisor.
func (a *Agent) renameGuest(ctx context.Context, was, id, server string) error {
	if err := a.o.Hypervisor.Rename(ctx, was, id, server); err != nil {
		return fault.Wrap("", "hypervisor.Rename", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if g, there := a.guests[was]; there {
		g.ID, g.Server = id, server
		delete(a.guests, was)
		a.guests[id] = g
		a.guestEpoch++
	}
	return a.journal.Rename(was, id, true)
}

// finishConflictingRenames finishes earlier renames that share an id with want's rename. A rename that want reverses
// is not finished first.
func (a *Agent) finishConflictingRenames(ctx context.Context, want host.Server,
	renames map[string]journal.Rename) error {
	for _, id := range slices.Sorted(maps.Keys(renames)) {
		if was := renames[id].Was; was != want.ID && (id == want.ID || id == want.PreviousID || was == want.PreviousID) {
			if err := a.finishRename(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishRename does the second part of a rename to id that the assignments no longer mention. It must precede other
// work under that id: the claims of id belong to the guest that still has the old id.
func (a *Agent) finishRename(ctx context.Context, id string) error {
	r := a.journal.State().Renames()[id]
	if r.Was == "" || r.Done {
		return nil
	}
	g, _ := a.guest(r.Was)
	server := cmp.Or(g.Server, r.Was)
	if server == id {
		server = ""
	}
	return a.renameGuest(ctx, r.Was, id, server)
}

// renameClaims moves the devices to the new id, in the journal first.
func (a *Agent) renameClaims(want host.Server) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.journal.Rename(want.PreviousID, want.ID, false); err != nil {
		return err
	}
	a.set = a.set.Rename(resource.ConsumerID(want.PreviousID), resource.ConsumerID(want.ID))
	for _, id := range []string{want.PreviousID, want.ID} {
		delete(a.acked, id)
		delete(a.unreportedFailures, id)
	}
	a.log.Info("guest renamed", "was", want.PreviousID, "id", want.ID)
	a.reportChanged()
	return nil
}

// forgetRenames deletes finished renames that the assignments no longer mention. a.mu is held.
func (a *Agent) forgetRenames() error {
	for id, r := range a.journal.State().Renames() {
		if want, wanted := a.assignments.servers[id]; r.Done && (!wanted || want.PreviousID != r.Was) {
			if err := a.journal.ForgetRename(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// migrateGuest live-migrates the guest to another host. A guest that cannot be migrated keeps running here, and the
// reason is reported to compute.
func (a *Agent) migrateGuest(ctx context.Context, want host.Server, j *serverWork) error {
	if _, err := a.allocate(want); err != nil {
		return err
	}
	to, err := destination(*want.Outgoing)
	if err == nil {
		err = a.o.Hypervisor.Migrate(ctx, want.ID, to)
	}
	switch {
	case err == nil:
		a.mu.Lock()
		g := a.guests[want.ID]
		g.Departed = true
		a.guests[want.ID] = g
		a.guestEpoch++
		a.mu.Unlock()
		a.log.Info("guest migrated", "server", want.ID, "to", to.Host)
		return a.settle(ctx, want, host.Guest{Phase: host.Departed})
	case ctx.Err() != nil || fault.Is(err, fault.Unavailable) && a.mayRetryBuild(j):
		return err
	default:
		return a.settle(ctx, want, host.Guest{Phase: host.Failed,
			Message: "the guest cannot go to " + to.Host + " and runs here as before: " + fault.TextOf(err)})
	}
}

// destination converts the target of a migration to the hypervisor's form.
func destination(o host.Outgoing) (hypervisor.Destination, error) {
	to := hypervisor.Destination{Host: o.Host, Devices: map[pci.Address]pci.Address{}}
	for from, there := range o.Devices {
		here, err := pci.ParseAddress(from)
		if err != nil {
			return to, fault.Wrap("", "loop.destination", err)
		}
		if to.Devices[here], err = pci.ParseAddress(there); err != nil {
			return to, fault.Wrap("", "loop.destination", err)
		}
	}
	return to, nil
}
