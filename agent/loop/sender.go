package loop

import (
	"context"
	"errors"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// Machine identifies where an agent runs. Empty fields are unknown.
type Machine struct {
	ID string // machine-id(5): of the installed system, also in a copy of it
	// boot, process namespace and lock directory: two processes of one place exclude each other by the lock of the
	// host's name
	Place string
}

// sender returns how this start of the agent identifies itself to compute. a.mu is held.
func (a *Agent) sender() host.Sender {
	from := host.Sender{Instance: a.instance, Start: a.startID, ProcessSpace: a.o.Machine.Place}
	for _, id := range a.startIDs {
		if id != a.startID {
			from.Previous = append(from.Previous, id)
		}
	}
	return from
}

// beginStart creates the id of this start. The fault is Conflict when the journal was written on another machine.
func (a *Agent) beginStart() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, _ := a.journal.Identity()
	if here := a.o.Machine.ID; known.Machine != "" && here != "" && known.Machine != here {
		return fault.New(fault.Conflict, "loop.Run",
			"the agent's directory %s was written on another machine (machine-id %s, here it is %s), "+
				"so it is a copy and its guests are not here; if this machine replaces that one for good, run `berth agent adopt`",
			a.o.Dir, known.Machine, here)
	}
	a.instance, a.starts = known.Instance, known.Starts+1
	if a.instance == "" {
		a.instance = a.o.NewID()
	}
	a.startID = a.o.NewStart()
	a.startIDs = append(a.journal.State().Starts(), a.startID)
	a.startIDs = a.startIDs[max(0, len(a.startIDs)-host.MaxPrevious):]
	return nil
}

// writeStart journals that another start of the agent has begun. Without an identity in the journal, the first sync
// does that, before anything is sent.
func (a *Agent) writeStart(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	id, written := a.journal.Identity()
	if !written {
		return nil
	}
	id.Instance, id.Starts, id.Machine = a.instance, a.starts, a.o.Machine.ID
	if err := a.journal.SetIdentity(id); err != nil {
		return err
	}
	return a.journal.SetStarts(a.startIDs)
}

// acknowledged journals that compute has stored a report of this start: earlier starts are no longer reported. a.mu is
// held.
func (a *Agent) acknowledged() error {
	if len(a.startIDs) == 1 {
		return nil
	}
	if err := a.journal.SetStarts([]string{a.startID}); err != nil {
		return err
	}
	a.startIDs = []string{a.startID}
	return nil
}

// waitForTakeover repeats call while compute answers that the previous start may still run, until that has had its
// time to reconnect.
func (a *Agent) waitForTakeover(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		taken, is := errors.AsType[*host.Occupied](err)
		if !is || !a.mayWait(taken.Wait) {
			return err
		}
		a.log.Info("waiting for the previous start to time out", "wait", taken.Wait.String(), "error", err)
		if !sleep(ctx, taken.Wait) {
			return err
		}
	}
}

// mayWait limits how long a start waits for the previous one.
func (a *Agent) mayWait(wait time.Duration) bool { return wait <= 5*time.Minute }
