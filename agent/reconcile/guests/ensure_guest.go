package guests

import (
	"cmp"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// ensure returns the next effect for a server of the assignments: its devices are claimed, its guest is built, changed
// or migrated, and the result is reported to compute.
//
// No guest is built, and no stopped one is started, before compute has stored its claim: when a server for which no
// agent has reported is deleted, compute frees everything at once. A Conflict of compute means that the server is not
// assigned here any more, which the next assignments show, or that another host has a guest of it.
func (w *Works) ensure(j *work) (state.Effect, error) {
	a, want := j.attempt, j.attempt.want
	if e, err := w.applyRename(want); e != nil || err != nil {
		return e, err
	}
	if message, failed := unreportedFailure(w, want); failed {
		return w.fail(j, message), nil
	}
	// What was reported does not count while the guest changes: if the assignment later returns to what it was, compute
	// expects a new report.
	if f, known := w.Acked[want.ID]; known {
		j.acked = f.Phase
		j.requested = j.requested || !f.Want.Equal(want)
	}
	delete(w.Acked, want.ID)
	if e := removeLateOfReturning(w, j); e != nil {
		return e, nil
	}
	g, there := w.Guests[want.ID]
	switch {
	case a.refusal != nil:
		return w.reportRefusal(j)
	case a.departure != nil:
		return w.Report(want.ID, want.ID, *a.departure), nil
	case there && g.Departed && want.Outgoing != nil:
		return w.Report(want.ID, want.ID, host.Guest{Phase: host.Departed}), nil
	case there && !g.Departed && lacksPortDevices(w.Core, want):
		return claimPortDevices(w, j)
	case there && !g.Departed && leavesUpload(g, want):
		return state.EndUpload{Work: want.ID, ID: want.ID}, nil
	case asAssigned(w, want):
		if e := releaseDetached(w, j, g); e != nil {
			return e, nil
		}
		if e := configureVFs(w, a, g, w.Set.Held(resource.ConsumerID(want.ID))); e != nil {
			return e, nil // after a live migration to this host, the guest runs and its VFs are not configured
		}
		if g.Stopped {
			if e := resetVFs(w, j, want.ID); e != nil {
				return e, nil
			}
		}
		return w.continueOrConfirm(j)
	case j.mustReportShutDown(g):
		report := w.guestReport(a, host.Stopped, w.Set.Held(resource.ConsumerID(want.ID)))
		report.ShutDown = true
		return w.Report(want.ID, want.ID, report), nil
	case exists(w, want) && (g.Stopped || !there) && starts(want.Power) && !a.claimed:
		if wait := restartWait(w, want.ID); wait > 0 && !j.requested {
			waitForRestart(w, j, wait)
			return w.reportRefusal(j)
		}
		return reportClaimed(w, j), nil // the server may run on another host
	case isMissing(w.Core, want) && keepsInterfaces(want):
		return nil, fault.New(fault.Unavailable, "the hypervisor does not list the guest, which was "+
			"built here; waiting until it does")
	case exists(w, want):
		return w.change(j)
	}
	return w.create(j)
}

// change returns the next effect for a guest that is not as its server's assignment requires.
func (w *Works) change(j *work) (state.Effect, error) {
	a, want := j.attempt, j.attempt.want
	a.creating = false
	noteRestart(w, j, w.Guests[want.ID])
	held := w.Set.Held(resource.ConsumerID(want.ID))
	if !w.State.Has(want.ID) || w.State.Ended(want.ID) { // it was removed here, and is assigned here again
		w.Record(journal.Put(want.ID, held, w.State.Cells(want.ID)...))
		a.listed = nil
	}
	delete(w.LateAtStart, want.ID)
	if err := checkInterfaces(want, held); err != nil && !want.ClaimOnly {
		if !a.claimed {
			return reportClaimed(w, j), nil
		}
		return nil, err
	}
	return w.buildGuest(j)
}

// unreportedFailure returns the message of a failure of this assignment that compute has not yet received.
func unreportedFailure(w *Works, want host.Server) (message string, failed bool) {
	f, found := w.UnreportedFailures[want.ID]
	if found && !f.Want.Equal(want) {
		delete(w.UnreportedFailures, want.ID) // the assignment has changed
		return "", false
	}
	return f.Message, found
}

// create returns the next effect for a server without a guest here.
func (w *Works) create(j *work) (state.Effect, error) {
	a, want := j.attempt, j.attempt.want
	if !a.verified {
		return state.ReadAllocation{Work: want.ID}, nil
	}
	picked, e, err := w.claimDevices(j)
	if e != nil || err != nil {
		return e, err
	}
	if !a.claimed && w.otherGuest(want) && w.mustAwaitReport(a) {
		return state.AwaitReport{}, nil // compute refuses the claim if it has the report of that guest
	}
	if want.Incoming && w.Config.ReceivesGuests && !a.ready.received {
		g, held := a.guest(w)
		if e, err := removeVFs(w, a, held); e != nil || err != nil {
			return e, err
		}
		sets, err := startedSets(w, want, g)
		if err != nil {
			setFailure(w, j, fault.TextOf(err))
			return w.fail(j, fault.TextOf(err)), nil
		}
		return state.Receive{Work: want.ID, Guest: g, Sets: sets}, nil
	}
	if want.Incoming || want.ClaimOnly || !a.claimed {
		return w.Report(want.ID, want.ID, w.guestReport(a, host.Claimed, picked)), nil
	}
	if g, there := w.Guests[want.ID]; there && g.Departed { // migrated away, and compute assigns it here again
		a.build = g.Build
		return state.Destroy{Work: want.ID, ID: want.ID}, nil
	}
	if err := checkInterfaces(want, picked); err != nil {
		return nil, err
	}
	a.creating = true
	return w.buildGuest(j)
}

// checkInterfaces returns fault.Unavailable if a port is bound with a device that is not claimed. Compute binds it
// again when it has the claim.
func checkInterfaces(want host.Server, picked []device.Claim) error {
	for _, i := range want.Interfaces {
		if i.Device != "" && !slices.ContainsFunc(picked, func(c device.Claim) bool { return c.ID().String() == i.Device }) {
			return fault.New(fault.Unavailable, "port %s is bound with the device %s, which is "+
				"not claimed; waiting until compute binds it again", i.Port, i.Device)
		}
	}
	return nil
}

// otherGuest reports whether the host has a guest of the server under another id that the assignments do not mention.
func (w *Works) otherGuest(want host.Server) bool {
	server := cmp.Or(want.Server, want.ID)
	for id, g := range w.Guests {
		if id != want.ID && cmp.Or(g.Server, id) == server && !w.Assigned(id) {
			return true
		}
	}
	return false
}

// claimDevices claims the server's devices; e is an effect that must precede that, or that reports that the server
// cannot run here. Devices held for an earlier assignment are freed first. The fault is Unavailable while the devices
// are held by servers that are about to leave.
func (w *Works) claimDevices(j *work) (picked []device.Claim, e state.Effect, err error) {
	want := j.attempt.want
	requests, err := state.ReadRequests(want.Requests)
	if err != nil {
		setFailure(w, j, fault.TextOf(err))
		return nil, w.fail(j, fault.TextOf(err)), nil
	}
	requests = append(requests, j.attempt.slots...)
	for {
		picked, refusal := w.Claim(want, requests, nil)
		if refusal == "" {
			return picked, nil, nil
		}
		if j.waitingSince.IsZero() {
			j.waitingSince = w.Now
		}
		if err := w.WaitFor(refusal, j.waitingSince); err != nil {
			return nil, nil, err
		}
		if len(w.Set.Held(resource.ConsumerID(want.ID))) == 0 {
			setFailure(w, j, string(refusal))
			return nil, w.fail(j, string(refusal)), nil
		}
		if e := w.release(j, want.ID); e != nil {
			return nil, e, nil
		}
	}
}

// buildGuest returns the effect that makes the hypervisor build, start, stop or rebuild the guest as assigned.
func (w *Works) buildGuest(j *work) (state.Effect, error) {
	a, want := j.attempt, j.attempt.want
	if err := checkHypervisor(w.Core); err != nil {
		return nil, err
	}
	g, held := a.guest(w)
	sets, err := startedSets(w, want, g)
	if err == nil {
		err = checkDevices(w, g, held)
	}
	if err != nil {
		if err := w.buildFailed(j, err); err != nil {
			return nil, err
		}
		return w.ensure(j)
	}
	if e, err := removeVFs(w, a, held); e != nil || err != nil {
		return e, err
	}
	if e := configureVFs(w, a, g, held); e != nil {
		return e, nil
	}
	delete(a.destroyed, want.ID)
	delete(a.vfsReset, want.ID)
	return state.Build{Work: want.ID, Guest: g, Sets: sets}, nil
}

// startedSets returns the sets of devices that must be prepared because a guest starts with them. The fault is Conflict
// if they do not agree any more.
func startedSets(w *Works, want host.Server, g hypervisor.Guest) ([]device.MatchedSet, error) {
	have, there := w.Guests[want.ID]
	runs := there && !have.Stopped && !have.Departed && have.Lost == "" && have.Build == g.Build
	if !w.Config.PreparesSets || g.Stopped || runs {
		return nil, nil
	}
	requests, err := state.ReadRequests(want.Requests)
	if err != nil {
		return nil, err
	}
	sets, refusal := w.Set.MatchedSets(resource.ConsumerID(want.ID), requests)
	if refusal != "" {
		return nil, fault.New(fault.Conflict, "the guest is not started: %s; correct the properties in device_spec, or "+
			"delete or migrate the server", refusal)
	}
	return sets, nil
}

// guest returns the guest as it is assigned, and the claims of its devices.
func (a *attempt) guest(w *Works) (hypervisor.Guest, []device.Claim) {
	want := a.want
	g := hypervisor.Guest{ID: want.ID, Server: want.Server, Name: want.Name, VCPUs: want.VCPUs,
		MemoryMB: want.MemoryMB, DiskGB: want.DiskGB, Image: want.Image,
		Hardware: hypervisor.Hardware(want.Hardware), Cells: state.HypervisorCells(w.State.Cells(want.ID)),
		Build: w.buildOf(a), DiskFrom: diskSource(want), DiskImage: want.DiskImage, Rescue: want.Rescue}
	build, built := w.State.Built(want.ID)
	g.Kept = built && !a.creating && g.Build <= build
	for _, i := range want.Interfaces {
		one := hypervisor.Interface{Port: i.Port, MAC: i.MAC, VIF: i.VIF, VNIC: i.VNIC, Bridge: i.Bridge, VLAN: i.VLAN}
		one.Device, _ = device.ParseID(i.Device) // one of the claims, or the zero value
		g.Interfaces = append(g.Interfaces, one)
	}
	held := w.Set.Held(resource.ConsumerID(want.ID))
	have, there := w.Guests[want.ID]
	setPower(&g, want.Power, have, there && !have.Departed && have.Build >= g.Build)
	if want.ClaimOnly || there && !have.Departed && keepsInterfaces(want) {
		g.Interfaces = have.Interfaces
	}
	if there && !a.creating {
		held = devicesOf(have, g.Interfaces, held)
	} else if !want.Incoming {
		held = withoutUnboundPorts(want, held)
	}
	for _, claim := range held {
		g.Devices = append(g.Devices, hypervisor.Device{ID: claim.ID(), Request: claim.RequestID,
			Provider: claim.Provider, Unmanaged: claim.Managed == pci.No})
	}
	slices.SortFunc(g.Devices, func(a, b hypervisor.Device) int { return a.ID.Compare(b.ID) })
	return g, held
}

// diskSource returns the guest from which a server that moves gets its disk; nil: the server does not move.
func diskSource(want host.Server) *hypervisor.DiskSource {
	if want.DiskFrom == nil {
		return nil
	}
	return &hypervisor.DiskSource{Host: want.DiskFrom.Host, Guest: want.DiskFrom.ID}
}

// checkDevices refuses to start a guest when the host has other devices than were claimed at its addresses: the guest
// would get a device that was not selected for it, such as a disk of the host. A guest that is stopped, or is to be
// stopped, is not checked. The fault is Conflict.
func checkDevices(w *Works, g hypervisor.Guest, claims []device.Claim) error {
	if mismatch := device.Mismatch(claims, w.Scanned); mismatch != "" && !g.Stopped {
		return fault.New(fault.Conflict, "the guest is not started with another device than was "+
			"claimed: %s; put the old device back, or delete or migrate the server", mismatch)
	}
	return nil
}

// buildFailed records that a guest was not built or changed; a fault means: try again later. A guest that existed
// before and cannot be changed stays as it is, with its devices, and the refusal is reported. A guest that cannot be
// built fails, also if it was observed half built meanwhile.
func (w *Works) buildFailed(j *work, why error) error {
	creating := j.attempt.creating
	if fault.Is(why, fault.Unavailable) {
		w.WantSync = true // the hypervisor may have done a part
	}
	// compute must have the reason for which a guest does not run, unless it is about to be lifted
	soon := !creating && (j.requested || j.failures < warnAfter)
	switch {
	case fault.Is(why, fault.Unavailable) && (w.Down != "" || soon || creating && j.mayRetryBuild(w.Now)):
		if creating { // what was observed during the build does not count as a guest that was built here
			delete(w.Guests, j.id)
		}
		return why
	case !creating:
		j.attempt.refusal, j.attempt.listed = why, nil
	default:
		setFailure(w, j, "the guest cannot be built: "+fault.TextOf(why))
	}
	return nil
}

// continueOrConfirm returns the effect that starts an outgoing migration if one is requested; otherwise the one that
// confirms the guest as running or stopped.
func (w *Works) continueOrConfirm(j *work) (state.Effect, error) {
	want := j.attempt.want
	held := w.Allocate(want)
	if want.Outgoing != nil {
		return migrateAway(w, j)
	}
	if want.UploadTo != "" && j.attempt.ready.upload == nil {
		return startUpload(w, want), nil
	}
	phase := host.Running
	if want.Power == host.Off || want.Power == host.Suspended {
		phase = host.Stopped
	}
	report := w.guestReport(j.attempt, phase, held)
	if report.Happened = j.happened; holds(want.Power) {
		report.Power = want.Power
	}
	return w.Report(want.ID, want.ID, report), nil
}

// reportRefusal returns the effects that report to compute that the hypervisor refused a change, with the guest's
// actual state and the time of the next attempt. The fault is the refusal when the guest no longer exists: the next
// attempt builds it, unless it was built here before and is missing.
func (w *Works) reportRefusal(j *work) (state.Effect, error) {
	a, want := j.attempt, j.attempt.want
	if a.listed == nil {
		return state.ListGuests{Work: want.ID}, nil
	}
	var report host.Guest
	i := slices.IndexFunc(a.listed, func(g hypervisor.Guest) bool { return g.ID == want.ID && !g.Departed })
	switch {
	case i >= 0:
		g := a.listed[i]
		w.Guests[want.ID] = g
		report = w.guestReport(a, host.Refused, w.Set.Held(resource.ConsumerID(want.ID)))
		report.Build, report.Power = g.Build, powerOf(g)
	default:
		delete(w.Guests, want.ID)
		if !isMissing(w.Core, want) {
			return nil, a.refusal
		}
		report = missingReport(w, a)
	}
	a.retryIn = max(a.retryIn, w.Config.Times.Refusals().Wait(j.failures+1))
	report.Message, report.RetryIn = fault.TextOf(a.refusal), int(a.retryIn.Round(time.Second)/time.Second)
	w.Warn("guest change refused", "server", want.ID, "error", a.refusal)
	return w.Report(want.ID, want.ID, report), nil
}
