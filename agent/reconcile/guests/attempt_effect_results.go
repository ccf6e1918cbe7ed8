package guests

import (
	"errors"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/resource"
)

// apply records what an effect of an attempt did. A fault ends the attempt: try again later.
func (w *Works) apply(j *work, effect state.Effect, e state.WorkDone) error {
	switch effect := effect.(type) {
	case state.Build:
		w.GuestEpoch++ // an observation from before may have the guest half built
		if e.Err != nil {
			return w.buildFailed(j, e.Err)
		}
		guestBuilt(w, j, effect.Guest)
		return nil
	case state.RemoveVFs:
		return vfsRemoved(w, j, e.Err)
	case state.ConfigureVFs:
		switch {
		case e.Err == nil || asAssigned(w, j.attempt.want): // if the guest runs already, VFsCompared has the conditions
			j.attempt.ready.vfs = true
			return nil
		case fault.Is(e.Err, fault.Unavailable): // the guest waits for the network service
			return fault.Wrap("", e.Err)
		}
		return w.buildFailed(j, e.Err)
	case state.Receive:
		if e.Err == nil {
			j.attempt.ready.received = true
			return nil
		}
		j.attempt.creating = true
		return w.buildFailed(j, e.Err)
	case state.Migrate:
		return w.migrated(j, effect, e.Err)
	case state.SettleMigration:
		return migrationSettled(w, j, e)
	case state.Upload:
		uploadEnded(w, j, effect, e)
		return nil
	case state.ReportGuest:
		return w.guestReported(j, effect, e.Err)
	}
	if e.Err != nil {
		_, renames := effect.(state.Rename)
		w.WantSync = w.WantSync || renames && fault.Is(e.Err, fault.Conflict) // a late guest may have appeared
		return fault.Wrap("", e.Err)
	}
	switch effect := effect.(type) {
	case state.ReadAllocation:
		allocationRead(w, j, e.Allocation)
	case state.EndUpload:
		setUploads(w, effect.ID, "")
	case state.Forget:
		j.attempt.destroyed[effect.ID] = true
	case state.Rename:
		w.renamed(effect)
		delete(j.attempt.destroyed, effect.ID) // that was a late guest
	case state.ResetVFs:
		j.attempt.vfsReset[resetKey(effect)] = true
	case state.Destroy:
		if g, there := w.Guests[effect.ID]; there && g.Server != "" {
			j.server = g.Server
		}
		delete(w.Guests, effect.ID)
		w.GuestEpoch++
		j.attempt.destroyed[effect.ID] = true
	case state.ListGuests:
		j.attempt.listed = append([]hypervisor.Guest{}, e.Guests...)
	}
	return nil
}

// guestBuilt records that the hypervisor has built a guest or changed it.
func guestBuilt(w *Works, j *work, g hypervisor.Guest) {
	g.DiskFrom, g.Kept, g.DiskImage = nil, false, "" // the hypervisor does not list them
	g.Uploads = w.Guests[g.ID].Uploads
	w.Guests[g.ID] = g
	recordBuilt(w.Core, g)
	guestStarted(w, j, g)
	w.Log("guest reconciled", "server", g.ID, "devices", len(g.Devices), "stopped", g.Stopped, "build", g.Build)
}

// allocationRead records whether the allocation of a server covers its assignment. If not, the server cannot run here;
// a guest that exists stays as it is, and gets no further device.
func allocationRead(w *Works, j *work, held placement.ConsumerAllocation) {
	a := j.attempt
	refusal := w.CheckAllocation(a.want, held)
	if refusal == "" {
		a.slots, refusal = w.KindRequests(a.want, held)
	}
	g, there := w.Guests[a.want.ID]
	switch {
	case refusal == "":
		a.verified, a.onNodes = true, numa.OnNodes(held.Allocation)
	case there && !g.Departed:
		a.refusal, a.listed = fault.New(fault.Conflict, "%s", refusal), nil
	default:
		setFailure(w, j, refusal)
	}
}

// guestReported records the answer of compute to a guest report.
func (w *Works) guestReported(j *work, e state.ReportGuest, err error) error {
	a := j.attempt
	if late, is := errors.AsType[*host.Late](err); is {
		w.RaiseSequence(late.Number)
		if a.lateCount++; a.lateCount < state.SequenceTries {
			return nil // next sends it again, with a larger number
		}
	}
	if err != nil {
		return fault.Wrap("", err)
	}
	a.lateCount = 0
	if e.Epoch != w.Assignments.Position.EpochID {
		return nil // compute has restarted since, maybe on a restored database that lacks the report: send it again
	}
	_, failed := w.UnreportedFailures[j.id]
	switch {
	case a.want.ID == "" && a.removal.ID != "":
		w.ReportedRemovals[a.removal.ID] = a.version
		w.ForgetEntries(w.removedIDs(a.removal)...)
		endServer(w.Core, j.server)
		a.final = true
	case a.want.ID == "":
		w.ForgetEntries(j.id)
		a.final = true
	case failed:
		w.Warn("server failed", "server", j.id, "reason", e.Guest.Message)
		w.ForgetEntries(j.id)
		delete(w.UnreportedFailures, j.id)
		w.Acked[j.id], a.final = state.Outcome{Want: a.want, Phase: host.Failed}, true
	case e.Guest.Phase == host.Claimed && !a.want.Incoming && !a.want.ClaimOnly:
		a.claimed, a.report = true, reportWait{}
		confirmClaim(w, a)
	default:
		w.Acked[j.id], a.final = state.Outcome{Want: a.want, Phase: e.Guest.Phase}, true
		w.Confirmed[j.id], j.requested = a.want, false
		if e.Guest.Happened != "" {
			j.happened = ""
		}
		if e.Guest.ShutDown {
			return shutDownError{}
		}
		if u := e.Guest.Upload; u != nil && u.Error != "" && !u.Final {
			delete(w.Acked, a.want.ID) // the server is not reconciled
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
func confirmClaim(w *Works, a *attempt) {
	want := a.want
	if !w.Assignments.Servers[want.ID].Equal(want) {
		return
	}
	w.Confirmed[want.ID] = want
	counted := func(d device.Claim) bool { return d.Provider != "" }
	// Placement selected the devices and has the allocation
	chosen := func(r host.Request) bool { return len(r.Providers) > 0 }
	picked := w.Set.Held(resource.ConsumerID(want.ID))
	if _, exists := w.Guests[want.ID]; exists {
		return // its allocation may be part of a move
	}
	devices := w.Config.ReportInPlacement && slices.ContainsFunc(picked, counted) &&
		!slices.ContainsFunc(want.Requests, chosen)
	if nodes := w.Config.CPUs.InPlacement && len(want.Topology) > 0 && !a.onNodes; devices || nodes {
		w.NewlyClaimed[want.ID] = true
		w.WantSync = true
	}
}
