package guests

import (
	"errors"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// This file is the source of live migrations: a guest is migrated, an interrupted migration is ended, and the result is
// reported.

// errAborted is why a guest stays whose live migration an operator has aborted.
var errAborted = errors.New("its live migration was aborted")

// migrateAway returns the effect that starts an outgoing migration, or that ends one that is aborted.
func migrateAway(w *Works, j *work) (state.Effect, error) {
	want := j.attempt.want
	if want.Outgoing.Abort {
		if !j.attempt.ready.settled {
			return state.SettleMigration{Work: want.ID, ID: want.ID}, nil
		}
		return reportStays(w, j, errAborted), nil
	}
	to, err := destination(*want.Outgoing)
	if err == nil {
		err = checkDestination(w.Guests[want.ID], to)
	}
	if err != nil {
		return reportStays(w, j, err), nil
	}
	return state.Migrate{Work: want.ID, To: to, Force: want.Outgoing.Force}, nil
}

// reportStays returns the report of a guest that keeps running here, which is repeated until compute has it.
func reportStays(w *Works, j *work, why error) state.Effect {
	j.attempt.departure = notDeparted(j.attempt.want, why)
	return w.Report(j.id, j.id, *j.attempt.departure)
}

// notDeparted returns the report of a guest that cannot be migrated and keeps running here.
func notDeparted(want host.Server, why error) *host.Guest {
	return &host.Guest{Phase: host.Failed,
		Message: "the guest cannot go to " + want.Outgoing.Host + " and runs here as before: " + fault.TextOf(why)}
}

// destination converts the target of a migration to the hypervisor's form.
func destination(o host.Outgoing) (hypervisor.Destination, error) {
	to := hypervisor.Destination{Host: o.Host, Devices: map[device.ID]device.ID{}}
	for from, there := range o.Devices {
		here, err := device.ParseID(from)
		if err != nil {
			return to, fault.Wrap("", err)
		}
		if to.Devices[here], err = device.ParseID(there); err != nil {
			return to, fault.Wrap("", err)
		}
	}
	return to, nil
}

// checkDestination returns fault.Invalid if a device of a guest has no destination device. Then the assignment is for
// the devices that an earlier guest had here: after compute's database was restored from a backup, a guest that had
// migrated away is built again, with the devices that are free.
func checkDestination(g hypervisor.Guest, to hypervisor.Destination) error {
	for _, d := range g.Devices {
		if _, given := to.Devices[d.ID]; !given {
			return fault.New(fault.Invalid, "no destination device is assigned for %s", d.ID)
		}
	}
	return nil
}

// migrated records the result of a migration.
func (w *Works) migrated(j *work, e state.Migrate, err error) error {
	switch {
	case err == nil:
		departed(w, j, e.To.Host)
	case fault.Is(err, fault.Unavailable) && (w.Down != "" || j.mayRetryBuild(w.Now)):
		return err
	default:
		j.attempt.departure = notDeparted(j.attempt.want, err)
	}
	return nil
}

// departed records that a guest runs on another host.
func departed(w *Works, j *work, to string) {
	g := w.Guests[j.id]
	g.Departed = true
	w.Guests[j.id] = g
	recordBuilt(w.Core, g)
	w.GuestEpoch++
	w.Log("guest migrated", "server", j.id, "to", to)
	j.attempt.departure = &host.Guest{Phase: host.Departed}
}

// migrationSettled records how an aborted migration has ended. A guest that has departed nevertheless has migrated.
func migrationSettled(w *Works, j *work, e state.WorkDone) error {
	switch {
	case e.Err != nil:
		return fault.Wrap("", e.Err)
	case e.Departed:
		departed(w, j, j.attempt.want.Outgoing.Host)
	default:
		w.Log("live migration aborted", "server", j.id, "to", j.attempt.want.Outgoing.Host)
		j.attempt.ready.settled = true
	}
	return nil
}

// forceMigration makes the hypervisor complete a migration in progress, if that is all in which the assignment of its
// server has changed, and reports whether it is. The migration continues.
func forceMigration(w *Works, j *work, was, is host.Server) bool {
	if was.Outgoing == nil || is.Outgoing == nil || was.Outgoing.Force || !is.Outgoing.Force || j.attempt == nil ||
		j.attempt.cancelled || w.IsHeld(j.id) {
		return false
	}
	if _, migrates := j.attempt.effect.(state.Migrate); !migrates {
		return false
	}
	before, now := is, *is.Outgoing
	now.Force = false
	if before.Outgoing = &now; !before.Equal(was) {
		return false
	}
	j.attempt.want = is
	w.Do(state.Force{Work: j.id})
	return true
}
