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
	Ports            []Port // of the source of a move: with their allocation there
	Cells            []numa.Placed
	Reported         bool // the agent has reported the guest
	Gone             bool // nothing of the guest is left on the host
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

// presence returns what a server in this state has on its host.
func (s State) presence() presence {
	switch s {
	case Claiming, Rescheduling, Failing, Offloading, DeletingAllocation:
		return claiming
	case AwaitingMinCount, BindingPorts:
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
	case StoppingSource, BindingDestination:
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
