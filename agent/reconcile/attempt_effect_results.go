package reconcile

import (
	"errors"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// apply records what an effect of an attempt did. A fault ends the attempt: try again later.
func (w *works) apply(j *work, effect Effect, e WorkDone) error {
	switch effect := effect.(type) {
	case Build:
		w.guestEpoch++ // an observation from before may have the guest half built
		if e.Err != nil {
			return w.buildFailed(j, e.Err)
		}
		g := effect.Guest
		g.DiskFrom, g.Kept, g.DiskImage = nil, false, "" // the hypervisor does not list them
		w.guests[g.ID] = g
		recordBuilt(w.core, g)
		guestStarted(w, j, g)
		w.log("guest reconciled", "server", g.ID, "devices", len(g.Devices), "stopped", g.Stopped, "build", g.Build)
		return nil
	case ConfigureVFs:
		switch {
		case e.Err == nil || w.asAssigned(j.attempt.want): // if the guest runs already, VFsCompared has the conditions
			j.attempt.ready.vfs = true
			return nil
		case fault.Is(e.Err, fault.Unavailable): // the guest waits for the network service
			return fault.Wrap("", e.Err)
		}
		return w.buildFailed(j, e.Err)
	case Receive:
		if e.Err == nil {
			j.attempt.ready.received = true
			return nil
		}
		j.attempt.creating = true
		return w.buildFailed(j, e.Err)
	case Migrate:
		return w.migrated(j, effect, e.Err)
	case Upload:
		uploadEnded(w, j, effect, e)
		return nil
	case ReportGuest:
		return w.guestReported(j, effect, e.Err)
	}
	if e.Err != nil {
		_, renames := effect.(Rename)
		w.wantSync = w.wantSync || renames && fault.Is(e.Err, fault.Conflict) // a late guest may have appeared
		return fault.Wrap("", e.Err)
	}
	switch effect := effect.(type) {
	case ReadAllocation:
		allocationRead(w, j, e.Allocation)
	case Forget:
		j.attempt.destroyed[effect.ID] = true
	case Rename:
		w.renamed(effect)
		delete(j.attempt.destroyed, effect.ID) // that was a late guest
	case ResetVFs:
		j.attempt.vfsReset[resetKey(effect)] = true
	case Destroy:
		if g, there := w.guests[effect.ID]; there && g.Server != "" {
			j.server = g.Server
		}
		delete(w.guests, effect.ID)
		w.guestEpoch++
		j.attempt.destroyed[effect.ID] = true
	case ListGuests:
		j.attempt.listed = append([]hypervisor.Guest{}, e.Guests...)
	}
	return nil
}

// allocationRead records whether the allocation of a server covers its assignment. If not, the server cannot run here;
// a guest that exists stays as it is, and gets no further device.
func allocationRead(w *works, j *work, held placement.ConsumerAllocation) {
	a := j.attempt
	refusal := w.checkAllocation(a.want, held)
	if refusal == "" {
		a.slots, refusal = w.kindRequests(a.want, held)
	}
	g, there := w.guests[a.want.ID]
	switch {
	case refusal == "":
		a.verified = true
	case there && !g.Departed:
		a.refusal, a.listed = fault.New(fault.Conflict, "%s", refusal), nil
	default:
		w.setFailure(j, refusal)
	}
}

// migrated records the result of a migration.
func (w *works) migrated(j *work, e Migrate, err error) error {
	switch {
	case err == nil:
		g := w.guests[j.id]
		g.Departed = true
		w.guests[j.id] = g
		recordBuilt(w.core, g)
		w.guestEpoch++
		w.log("guest migrated", "server", j.id, "to", e.To.Host)
		j.attempt.departure = &host.Guest{Phase: host.Departed}
	case fault.Is(err, fault.Unavailable) && (w.down != "" || j.mayRetryBuild(w.now)):
		return err
	default:
		j.attempt.departure = notDeparted(j.attempt.want, err)
	}
	return nil
}

// guestReported records the answer of compute to a guest report.
func (w *works) guestReported(j *work, e ReportGuest, err error) error {
	a := j.attempt
	if late, is := errors.AsType[*host.Late](err); is {
		w.raiseSequence(late.Number)
		if a.lateCount++; a.lateCount < sequenceTries {
			return nil // next sends it again, with a larger number
		}
	}
	if err != nil {
		return fault.Wrap("", err)
	}
	a.lateCount = 0
	if e.epoch != w.assignments.position.EpochID {
		return nil // compute has restarted since, maybe on a restored database that lacks the report: send it again
	}
	_, failed := w.unreportedFailures[j.id]
	switch {
	case a.want.ID == "" && a.removal.ID != "":
		w.reportedRemovals[a.removal.ID] = a.version
		w.forgetEntries(w.removedIDs(a.removal)...)
		endServer(w.core, j.server)
		a.final = true
	case a.want.ID == "":
		w.forgetEntries(j.id)
		a.final = true
	case failed:
		w.warn("server failed", "server", j.id, "reason", e.Guest.Message)
		w.forgetEntries(j.id)
		delete(w.unreportedFailures, j.id)
		w.acked[j.id], a.final = outcome{want: a.want, phase: host.Failed}, true
	case e.Guest.Phase == host.Claimed && !a.want.Incoming && !a.want.ClaimOnly:
		a.claimed, a.report = true, reportWait{}
		w.confirmClaim(a.want)
	default:
		w.acked[j.id], a.final = outcome{want: a.want, phase: e.Guest.Phase}, true
		w.confirmed[j.id], j.requested = a.want, false
		if e.Guest.Happened != "" {
			j.happened = ""
		}
		if e.Guest.ShutDown {
			return shutDownError{}
		}
		if u := e.Guest.Upload; u != nil && u.Error != "" && !u.Final {
			delete(w.acked, a.want.ID) // the server is not reconciled
			return &uploadError{u.Error}
		}
		if e.Guest.Phase == host.Refused {
			return &refusedError{a.refusal}
		}
	}
	return nil
}

// confirmClaim records that compute has confirmed the claim of a server. If its allocations may be missing in
// Placement, the next sync writes them.
func (c *core) confirmClaim(want host.Server) {
	if !c.assignments.servers[want.ID].Equal(want) {
		return
	}
	c.confirmed[want.ID] = want
	counted := func(c device.Claim) bool { return c.Provider != "" }
	// Placement selected the devices and has the allocation
	chosen := func(r host.Request) bool { return len(r.Providers) > 0 }
	picked := c.set.Held(resource.ConsumerID(want.ID))
	if _, exists := c.guests[want.ID]; exists {
		return // its allocation may be part of a move
	}
	if c.config.ReportInPlacement && slices.ContainsFunc(picked, counted) &&
		!slices.ContainsFunc(want.Requests, chosen) {
		c.newlyClaimed[want.ID] = true
		c.wantSync = true
	}
}
