package lifecycle

import "github.com/openberth/berth/compute/schedule"

// Event is something that happened to a server.
type Event interface{ event() }

// Created begins the life of a server.
type Created struct{}

// Chosen says that candidates were judged and some stood: the answer to Schedule.
type Chosen struct {
	Choices    []schedule.Choice // best first, at least one
	Candidates int               // how many Placement offered
	Refused    string            // the refusals in one sentence, or empty
}

// NothingFits says that there is no candidate that stands: the other answer to Schedule.
type NothingFits struct {
	Candidates int    // how many Placement offered
	Reason     string // one sentence without its full stop
	Again      bool   // asking again may help: what was offered may have been taken before it was looked at
}

// Claimed says that Choices[0] is held: the answer to Claim.
type Claimed struct{ Try int }

// ClaimLost says that Choices[0] can no longer be had and that nothing is held.
type ClaimLost struct {
	Try    int
	Reason string
}

// Refused says that a step cannot be done, now or later, for a reason that is not about capacity.
type Refused struct {
	Step   Step
	Reason string
}

// Stumbled says that a step could not be done now and will be tried again.
type Stumbled struct {
	Step   Step
	Reason string
}

// Released says that the server holds nothing in Placement any more: the answer to Release.
type Released struct{}

// GuestClaimed comes from the agent of Host: the devices are picked, the guest is being built.
type GuestClaimed struct {
	Host    string
	Devices []schedule.Picked
}

// GuestRunning comes from the agent of Host: the guest runs with these devices.
type GuestRunning struct {
	Host    string
	Devices []schedule.Picked
}

// GuestFailed comes from the agent of Host: the guest cannot be built or kept there, and nothing of it is left.
type GuestFailed struct {
	Host    string
	Message string
}

// GuestGone comes from the agent of Host: nothing of the guest is left.
type GuestGone struct{ Host string }

// DeleteRequested comes from a user.
type DeleteRequested struct{}

func (Created) event()         {}
func (Chosen) event()          {}
func (NothingFits) event()     {}
func (Claimed) event()         {}
func (ClaimLost) event()       {}
func (Refused) event()         {}
func (Stumbled) event()        {}
func (Released) event()        {}
func (GuestClaimed) event()    {}
func (GuestRunning) event()    {}
func (GuestFailed) event()     {}
func (GuestGone) event()       {}
func (DeleteRequested) event() {}
