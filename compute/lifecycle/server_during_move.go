package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/resource"
)

// This file connects a server with its move: it starts the move, passes it events and applies their effects.

// beginMove starts a move: the server's present residence becomes the source, and its own fields become those of the
// destination.
func beginMove(s Server, kind Kind, e ActionRequested, now time.Time) Server {
	s.Move = &Move{
		Kind: kind, Phase: PreparingMove, To: e.To, SameHostAllowed: e.SameHost && kind == Resizing,
		Consumer: cmp.Or(s.PreviousConsumer, e.ID), From: s.ownResidence(), KeepStopped: e.KeepStopped,
	}
	s.AdminPass = e.AdminPass
	s = s.WithDetails(e.Details.Applied(s.Details()), s.Updated)
	s.Migration = &Migration{
		ID: e.ID, Kind: kind, Status: "accepted", From: s.Host,
		OldFlavor: s.Flavor.ID, NewFlavor: s.Flavor.ID, Begun: now, Updated: now,
		User: e.By.User, Project: e.By.Project,
	}
	if kind == Resizing {
		s.Flavor, s.Migration.NewFlavor, s.RequestedAmounts = e.Flavor, e.Flavor.ID, e.Amounts
	}
	s = endHold(dropShelvedImage(s))
	s.Rescued, s.SoftDeleted = "", time.Time{}
	s.State, s.Task, s.Round, s.FailedHosts, s.PreRebuild = Moving, "", 0, nil, nil
	s.Host, s.Reported, s.PreviousConsumer, s.Devices, s.Cells, s.Choices = "", false, "", nil, nil, nil
	s.Updated = now
	if kind == Resizing {
		s.Ask, s.Requests, s.Topology = resource.Ask{}, nil, nil
		return addHistory(s, now, "resize requested: to flavor "+e.Flavor.Name)
	}
	s = planMove(s, now) // the request is that of the flavor before
	if e.LosesDisk {
		text := "the disk on " + s.Move.From.Host + " is not kept: the evacuated guest gets a new "
		if s.Image == "" {
			return addHistory(s, now, text+"blank one")
		}
		return addHistory(s, now, text+"one from the image "+s.Image)
	}
	return s
}

// planMove begins the search for a destination: the server has its request to Placement.
func planMove(s Server, now time.Time) Server {
	s.Requests = WithProviders(s.Requests, nil)
	text := fmt.Sprintf("%s from %s%s: %s", s.Move.Kind, s.Move.From.Host, prefixed(" to ", s.Move.To),
		describe(s.Ask, s.Requests))
	return advance(s, askPrepared{text}, now)
}

// advance passes an event to the server's move and applies the effects.
func advance(s Server, e moveEvent, now time.Time) Server {
	m, effects := s.Move.next(e)
	s.Move = &m
	for _, effect := range effects {
		s = applyEffect(s, effect, now)
	}
	return s
}

// applyEffect applies an effect of the server's move.
func applyEffect(s Server, effect moveEffect, now time.Time) Server {
	switch effect := effect.(type) {
	case addEntry:
		return addHistory(s, now, string(effect))
	case setStatus:
		return setMigrationStatus(s, now, string(effect))
	case setTask:
		s.Task = Task(effect)
	case setFault:
		if effect != "" {
			return recordFault(s, now, string(effect))
		}
		s.Fault = nil
	case claimChoice:
		return countClaim(s, now)
	case dropChoices:
		s.Choices = nil
	case hostFailed:
		return excludeHost(s, effect.host, effect.message)
	case leaveSource:
		if s.Move.KeepStopped {
			s.Power = Off
		}
		s.Leftovers = append(slices.Clone(s.Leftovers), s.Move.From)
		s.State, s.Move = Active, nil
	case returnToSource:
		return endAtSource(s, now)
	}
	return s
}

// endAtSource ends the move at the source: the server continues there, or is deleted, or fails with its guest. If the
// move was given up, Refusal has the reason.
func endAtSource(s Server, now time.Time) Server {
	move := s.Move
	s = restoreSource(s)
	switch {
	case !s.Requested.IsZero() && move.From.Gone:
		s.State = DeletingAllocation
	case !s.Requested.IsZero():
		s.State = DeletingGuest
	case move.SourceLost != "":
		return fail(s, now, Failing, move.SourceLost)
	case move.Failed != "" && !move.Aborted:
		s.Refusal = &Fault{Code: 500, Message: move.Failed, Created: now}
	}
	return s
}

// restoreSource ends the move and restores the server's fields from the source.
func restoreSource(s Server) Server {
	from := s.Move.From
	s.State, s.Move, s.Task, s.AdminPass = Active, nil, "", ""
	s.Host, s.PreviousConsumer = from.Host, from.PreviousConsumer
	s.Flavor, s.Ask, s.Requests, s.Ports = from.Flavor, from.Ask, from.Requests, portsToRestore(from.Ports)
	s.Devices, s.Topology, s.Cells, s.Reported, s.Choices = from.Devices, from.Topology, from.Cells, from.Reported, nil
	if from.Choice != nil {
		s.Choices, s.HostZone = []schedule.Choice{*from.Choice}, from.Choice.Zone
	}
	return s
}

// liveStatuses are the statuses for which OpenStack has other words for live migrations.
var liveStatuses = map[string]string{"pre-migrating": "preparing", "migrating": "running"}

// setMigrationStatus sets the status of the migration as operators see it.
func setMigrationStatus(s Server, now time.Time, status string) Server {
	m := *s.Migration
	if m.Kind == LiveMigration {
		status = cmp.Or(liveStatuses[status], status)
	}
	m.Status, m.Updated = status, now
	if s.Host != "" {
		m.To = s.Host
	}
	s.Migration = &m
	return s
}
