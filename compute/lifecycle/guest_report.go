package lifecycle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// applyReport applies the report to the residence that it concerns. A report about any other residence is late and is
// ignored.
func applyReport(s Server, g guestReport, now time.Time) Server {
	if g.consumer == "" {
		g.consumer = s.ID
	}
	// it may be removed before its agent receives the new id
	mine := g.consumer == s.ID || g.consumer == s.PreviousConsumer && g.state == "gone"
	if mine && g.host != "" && g.host == s.AllocatedHost() {
		if !s.concerns(g, s.ownResidence()) {
			return s
		}
		return ownGuest(s, g, now)
	}
	if m := s.Move; m != nil && m.From.Host == g.host {
		deleted := !s.Requested.IsZero() && g.consumer == m.From.PreviousConsumer &&
			(g.state == "gone" || g.state == "failed")
		if (g.consumer == m.From.Consumer || deleted) && s.concerns(g, m.From) {
			return sourceGuest(s, g, now)
		}
	}
	i := slices.IndexFunc(s.Leftovers, func(l Residence) bool {
		return l.Host == g.host && !l.Gone && (g.consumer == l.Consumer || g.consumer == l.PreviousConsumer) &&
			s.concerns(g, l)
	})
	if i < 0 {
		return s
	}
	s.Leftovers = slices.Clone(s.Leftovers)
	switch {
	case g.state == "gone":
		// not "failed": a live migration may have failed; the agent removes the guest and reports it
		s.Leftovers[i].Gone = true
		s = addHistory(s, now, "the leftover guest on "+g.host+" is gone")
	case g.consumer == s.Leftovers[i].Consumer: // the agent knows the guest by the new id
		s.Leftovers[i].PreviousConsumer = ""
	}
	return s
}

// concerns reports whether a report can be about the present guest of a residence. A report that nothing is left of a
// guest must name each id by which the agent may know the guest. One that lacks the previous id is about an earlier
// guest with the same consumer: after the revert of a resize on the same host, the guest of the source takes over the
// id of the guest that was removed at the destination, and the agent may repeat its report of that removal.
func (s Server) concerns(g guestReport, r Residence) bool {
	if len(g.removed) == 0 { // a guest that exists, or an agent of an earlier version
		return true
	}
	previous := r.PreviousConsumer
	return slices.Contains(g.removed, r.Consumer) &&
		(previous == "" || s.Expects(previous, r.Host) || slices.Contains(g.removed, previous))
}

// ownGuest applies a report about the guest of the server's own consumer on AllocatedHost.
func ownGuest(s Server, g guestReport, now time.Time) Server {
	if s.withdraws() && (g.state == "gone" || g.state == "failed") {
		return onUnboundRemoved(s, now)
	}
	switch g.state {
	case "gone":
		return onGuestGone(s, "", now)
	case "failed":
		return onGuestFailed(s, g.message, now)
	case "departed":
		return s // this guest is not a source
	case "refused":
		return onGuestRefused(s, g, now)
	}
	s = recordBuilds(s, g)
	switch s.presence() {
	case incoming:
		s = recordDevices(s, g, now)
		switch g.state {
		case "running":
			// the guest has arrived; a record restored from a backup may still have an earlier phase
			s = onArrived(s, now, On)
		case "claimed":
			if !s.AwaitsBindings() {
				s = advance(s, destinationPrepared{s.Host}, now)
			}
		}
	case building:
		s = recordDevices(s, g, now)
		if g.state != "claimed" && g.power == s.ownPower() {
			s.Rescued = g.rescue
			s = onArrived(s, now, g.power)
		}
	case existing:
		s = recordHappened(s, g, now)
		s = recordDevices(s, g, now)
		s.PreviousConsumer = "" // the agent knows the guest by the server's id
		switch {
		case g.shutDown && s.State == Active && (s.Task == "" || s.Task.copies()) && s.Power == On && s.Actual != Off:
			s = onShutDown(s, "shut down by itself", now)
		case g.shutDown && s.State == Active && s.Power.holds() &&
			(s.Task.copies() || slices.Contains([]Task{"", Pausing, Suspending}, s.Task)):
			s = onShutDown(s, "ended while it was to be "+string(s.Power), now)
		case g.state != "claimed":
			s = onPortPlugged(settleTask(s, g, now), g.ports, now)
			if copies := s.ShelvedImage != nil && s.ShelvedImage.Copy != nil; copies || g.state == "stopped" {
				s = onDiskUpload(s, g.upload, now)
			}
		}
	}
	return s // in other states the guest is not assigned: the report is late
}

// recordHappened adds to the history what an agent has done to the guest without a request. During an action it is a
// part of that. The same text is a repeated report of the same event.
func recordHappened(s Server, g guestReport, now time.Time) Server {
	if g.happened == "" || s.Task != "" {
		return s
	}
	text := fmt.Sprintf("the agent of %s has restored the guest: %s", g.host, g.happened)
	if slices.ContainsFunc(s.History, func(e HistoryEntry) bool { return e.Text == shorten(text) }) {
		return s
	}
	return addHistory(s, now, text)
}

// retryRefused records why a guest is not as its server must be, and when the agent tries again. The desired state
// stays, because no action was given up.
func retryRefused(s Server, g guestReport, now time.Time) Server {
	s.PreviousConsumer, s.Actual = "", g.power
	what := "restored"
	if g.power == Off && s.Power == On {
		what = "started"
	}
	text := fmt.Sprintf("The guest cannot be %s on %s: %s", what, g.host, trimStop(g.message))
	s.Refusal = &Fault{Code: 500, Created: now, Message: fmt.Sprintf("%s; the next attempt is at %s.", text,
		now.Add(g.retryIn).UTC().Format(time.RFC3339))}
	return addHistory(s, now, text+"; the agent tries again.")
}

// onShutDown stops a server whose guest has ended by itself, as Nova does: the user starts it again.
func onShutDown(s Server, what string, now time.Time) Server {
	if s.Power, s.Actual = Off, Off; !s.Task.copies() { // the disk is copied all the same
		s.Task = ""
	}
	return addHistory(s, now, "the guest on "+s.Host+" has "+what+", so the server is stopped")
}

// onArrived continues after the guest exists on its host in the desired power state.
func onArrived(s Server, now time.Time, as Power) Server {
	s.Actual, s.Shelved, s.Fault, s.AdminPass = as, false, nil, ""
	s = dropShelvedImage(s) // the guest has its disk from it
	if s.Launched.IsZero() {
		s.Launched = now
	}
	word := "runs"
	if as != On {
		word = "exists, stopped,"
	}
	s = addHistory(s, now, fmt.Sprintf("the guest %s on %s", word, s.Host))
	if s.Move == nil {
		s.State = Active
		return s
	}
	return advance(s, destinationArrived{}, now)
}

// onGuestRefused gives up the requested action because the hypervisor refuses it: the actual state of the guest becomes
// the desired one. Refusal contains the reason for the user, who may repeat the action.
func onGuestRefused(s Server, g guestReport, now time.Time) Server {
	arrives := s.presence() == building
	switch s.presence() {
	case incoming: // only the devices matter here
		return recordDevices(s, g, now)
	case building, existing:
		s = recordDevices(s, g, now)
	default:
		return s // late
	}
	if next, ok := onPortChangeRefused(s, g.message, now); ok {
		return next
	}
	if arrives && s.ShelvedImage != nil { // its disk may not be made yet: the image is needed
		return addHistory(s, now, "the guest cannot be built on "+g.host+" now, its agent will try again: "+g.message)
	}
	if s.ShelvedAt.IsZero() {
		s = dropShelvedImage(s) // it cannot be stopped
	}
	if s.Task == SoftDeleting {
		s.SoftDeleted = time.Time{}
	}
	settled := s.Task == "" && (s.State == Active || s.Phase() == Resized) && s.presence() == existing
	if settled && g.retryIn > 0 && (g.power == Off || s.Power == On) && g.build == s.Builds {
		return retryRefused(s, g, now)
	}
	what := refusedChange(s, g)
	if u := s.PreRebuild; u != nil && g.build != s.Builds { // the guest has not been rebuilt
		s.Name, s.Image, s.ImageSnapshot, s.Ask = u.Name, u.Image, u.ImageSnapshot, u.Ask
		if u.FirstBoot != nil {
			s.FirstBoot = *u.FirstBoot
		}
	}
	s.PreviousConsumer, s.Task, s.Actual, s.Builds, s.Power, s.PreRebuild = "", "", g.power, g.build, g.power, nil
	s.AdminPass, s.RescueImage, s.Rescued = "", g.rescue, g.rescue
	if arrives {
		s = onArrived(s, now, g.power)
	}
	text := fmt.Sprintf("The guest cannot be %s on %s: %s; it is unchanged. Correct the cause and repeat the action.",
		what, g.host, trimStop(g.message))
	s.Refusal = &Fault{Code: 500, Message: text, Created: now}
	return addHistory(s, now, text)
}

// refusedChange returns what the hypervisor has refused to do with the guest, as a participle.
func refusedChange(s Server, g guestReport) string {
	switch {
	case s.Task == Rebuilding || g.build != s.Builds:
		return "rebuilt"
	case s.Power.holds():
		return string(s.Power)
	case s.Task == Rescuing || s.Task == Unrescuing:
		return strings.Replace(string(s.Task), "ing", "ed", 1)
	case s.Task == Unpausing:
		return "unpaused"
	case s.Task == Resuming:
		return "resumed"
	case g.power != Off:
		return "stopped"
	}
	return "started"
}

// settleTask ends the task in progress if the report shows that it is done.
func settleTask(s Server, g guestReport, now time.Time) Server {
	was := s.Task
	switch s.Task {
	case Rebooting, RebootingHard:
		if g.power != Off {
			return s // late: from before the task
		}
		s.Task = RebootStarted
		if was == RebootingHard {
			s.Task = RebootStartedHard
		}
	case Rebuilding:
		if g.build != 0 && g.build != s.Builds || g.power != s.Power {
			return s // late: about the guest before the rebuild
		}
		s.Task, s.Fault, s.PreRebuild = "", nil, nil
	case "", ShelvingPendingUpload, ImageSnapshot, ImageBackup, ImageUploading:
	case ShelvingUploading:
		if g.power != Off {
			return s // late: from before the task
		}
	case SoftDeleting:
		if g.power != Off {
			return s // late
		}
		s.Task = ""
	default:
		if g.power != s.Power || g.rescue != s.RescueImage {
			return s // late
		}
		s = endTask(s)
	}
	if s.Task != Rebuilding && (g.build == 0 || g.build == s.Builds) {
		s.AdminPass = "" // the guest has read it
	}
	if s.Actual == g.power && s.Task == was && s.Rescued == g.rescue {
		return s
	}
	if s.Actual == Off && was == "" { // the agent has started it again
		s.Refusal = nil
	}
	s.Actual, s.Rescued = g.power, g.rescue
	text := fmt.Sprintf("the guest %s on %s", powerWords[g.power], s.Host)
	return addHistory(s, now, text+prefixed(", from the rescue image ", g.rescue))
}

// endTask ends the task of a guest that is as requested.
func endTask(s Server) Server {
	was := s.Task
	s.Task = ""
	switch was {
	case RebootStarted, RebootStartedHard:
		s.Fault = nil
	case Restoring:
		s.Fault, s.SoftDeleted = nil, time.Time{}
	case Unshelving:
		s.ShelvedAt = time.Time{}
		s = dropShelvedImage(s) // the guest has its own disk
	}
	return s
}

// powerWords are the verbs of the history.
var powerWords = map[Power]string{On: "runs", Off: "has stopped", Paused: "is paused", Suspended: "is suspended"}

// onGuestGone continues after the guest on AllocatedHost is gone. An assigned guest is rebuilt by its agent.
func onGuestGone(s Server, why string, now time.Time) Server {
	switch s.State {
	case Moving:
		return advance(s, destinationGone{s.Host, why}, now)
	case DeletingGuest:
		s.State = DeletingAllocation
	case Shelving:
		s.State = Offloading
	default:
		return s
	}
	return addHistory(s, now, "the guest on "+s.Host+" is gone"+prefixed(": ", why))
}

// onGuestFailed continues after the guest on AllocatedHost could not be built or kept. Nothing of it is left there.
func onGuestFailed(s Server, message string, now time.Time) Server {
	switch s.State {
	case Moving:
		lastReason := unlessAgain(s, lastFailure(s, message))
		return advance(s, destinationFailed{host: s.Host, message: message, lastReason: lastReason}, now)
	case Spawning:
		return reschedule(s, message, now)
	case Active:
		// The guest has run and may have had data, so it is not rebuilt elsewhere.
		uploaded := s.uploadsDisk() && s.ShelvedImage.Copy == nil && s.ShelvedImage.SHA512 != ""
		if uploaded || !s.ShelvedAt.IsZero() { // these data are in the image
			return offload(s, "the guest is lost on "+s.Host+"; the image "+s.ShelvedImage.ID+" has its disk", now)
		}
		s = addHistory(s, now, fmt.Sprintf("the guest failed on %s: %s", s.Host, message))
		if s.ShelvedImage != nil && s.ShelvedImage.Copy != nil {
			s = dropShelvedImage(s)
		}
		s.Task = ""
		return fail(s, now, Failing, "The server failed on "+trimStop(fmt.Sprintf("%s: %s", s.Host, message))+".")
	}
	return onGuestGone(s, "", now)
}

// sourceGuest applies a report about the guest at the source of a move.
func sourceGuest(s Server, g guestReport, now time.Time) Server {
	switch g.state {
	case "departed":
		return advance(s, sourceMigrated{to: s.Host}, now)
	case "failed":
		return advance(s, sourceFailed{message: g.message, prepared: s.Reported}, now)
	case "gone":
		if s.Requested.IsZero() {
			return s // the agent rebuilds the guest, because it is assigned
		}
		return advance(s, sourceGone{}, now)
	}
	refused := g.state == "refused"
	e := sourceReported{devices: g.devices, cells: g.cells, to: s.Host, refused: refused, message: g.message,
		built: g.state != "claimed", stopped: g.power == Off}
	if e.built && !s.Move.AllocationsMoved() { // if the move is given up, this is the state of the server
		s.Actual = g.power
	}
	return advance(s, e, now)
}

// recordDevices records the devices and cells of the guest as reported.
func recordDevices(s Server, g guestReport, now time.Time) Server {
	if s.Reported && slices.Equal(s.Devices, g.devices) && reflect.DeepEqual(s.Cells, g.cells) {
		return s
	}
	s.Reported, s.Devices, s.Cells = true, slices.Clone(g.devices), slices.Clone(g.cells)
	if len(s.Devices) == 0 {
		return addHistory(s, now, "the agent of "+s.Host+" has accepted the guest")
	}
	var picked []string
	for _, d := range s.Devices {
		picked = append(picked, fmt.Sprintf("%s for %s", d.Address, requestName(s.Requests, d.RequestID)))
	}
	return addHistory(s, now, "the agent of "+s.Host+" picked "+strings.Join(picked, ", "))
}
