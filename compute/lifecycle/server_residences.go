package lifecycle

import (
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Residence is what one consumer has on one host.
type Residence struct {
	Consumer         string // consumer in Placement, and the guest's id in the assignments of the host
	PreviousConsumer string // earlier id of the guest, until the agent reports it by the new one
	Host             string
	Flavor           flavor.Flavor
	Ask              resource.Ask
	Requests         []pci.Request
	Choice           *schedule.Choice // what was claimed
	Devices          []schedule.Picked
	Topology         []numa.GuestCell
	Cells            []numa.Placed
	Reported         bool // the agent has reported the guest
	Gone             bool // nothing of the guest is left on the host
}

// Residences lists what the server's consumers may have on hosts.
func (s Server) Residences() []Residence {
	var list []Residence
	if s.AllocatedHost() != "" {
		list = append(list, s.ownResidence())
	}
	if s.Move != nil {
		list = append(list, s.Move.From)
	}
	return append(list, s.Leftovers...)
}

// ownResidence returns the residence of the server's own consumer.
func (s Server) ownResidence() Residence {
	own := Residence{
		Consumer: s.ID, PreviousConsumer: s.PreviousConsumer, Host: s.Host,
		Flavor: s.Flavor, Ask: s.Ask, Requests: s.Requests,
		Devices: s.Devices, Topology: s.Topology, Cells: s.Cells, Reported: s.Reported,
	}
	if len(s.Choices) > 0 {
		own.Choice = &s.Choices[0]
	}
	return own
}

// Shown returns the residence that users see: the source while a move is in progress, otherwise the server's own.
func (s Server) Shown() Residence {
	if s.Move != nil && s.Move.Phase != Resized && s.Move.Phase != Reverting {
		return s.Move.From
	}
	return s.ownResidence()
}

// AllocatedHost returns the host whose devices the server's own consumer may hold, or an empty string. Residences also
// lists the hosts of the other consumers.
func (s Server) AllocatedHost() string {
	if s.presence() < claimed {
		return ""
	}
	return s.Host
}

// ExcludedHosts returns the hosts that must not be chosen, and why: the source of the move, and the hosts of leftovers,
// because a new guest there would get the id of the leftover guest.
func (s Server) ExcludedHosts() map[string]string {
	out := map[string]string{}
	if s.Move != nil && !s.Move.SameHostAllowed {
		out[s.Move.From.Host] = "it is the source of the move"
	}
	for _, l := range s.Leftovers {
		out[l.Host] = "an earlier guest of the server there is not gone yet"
	}
	return out
}

// presence is what the server's own consumer has on Host.
type presence int

const (
	absent   presence = iota // holds nothing
	claiming                 // no guest; it may hold a claim, which must be released if it is not needed any more
	claimed                  // holds a claim; the host is not assigned the guest yet
	incoming                 // assigned; the guest arrives by live migration
	building                 // assigned; the agent builds the guest
	existing                 // assigned; the guest exists
	removing                 // not assigned any more; the agent must destroy the guest
)

// presence returns what the server's own consumer has on Host.
func (s Server) presence() presence {
	if s.Move != nil {
		return s.Move.Phase.presence()
	}
	return s.State.presence()
}

// presence returns what a server in this state has on its host.
func (s State) presence() presence {
	switch s {
	case Claiming, Rescheduling, Failing, Offloading, DeletingAllocation:
		return claiming
	case AwaitingMinCount:
		return claimed
	case Spawning:
		return building
	case Active:
		return existing
	case Shelving, DeletingGuest:
		return removing
	}
	return absent
}

// presence returns what the server's own consumer has at the destination.
func (p MovePhase) presence() presence {
	switch p {
	case ClaimingDestination, ReschedulingDestination, ReleasingDestination:
		return claiming
	case StoppingSource:
		return claimed
	case PreLiveMigration, LiveMigrating:
		return incoming
	case SpawningDestination:
		return building
	case Resized:
		return existing
	case Reverting:
		return removing
	}
	return absent
}
