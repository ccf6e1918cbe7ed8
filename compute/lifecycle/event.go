package lifecycle

import (
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Event is something that happened to a server.
type Event interface{ event() }

// Created begins the life of a server.
type Created struct{}

// Chosen says that candidates were judged and some stood: the answer to Schedule.
type Chosen struct {
	Choices        []schedule.Choice        // best first, at least one
	Candidates     int                      // how many Placement offered
	Refused        string                   // the refusals in one sentence, or empty
	FilterFailures []schedule.FilterFailure // the same in full
}

// NothingFits says that there is no candidate that stands: the other answer to Schedule.
type NoValidHost struct {
	Candidates     int    // how many Placement offered
	Reason         string // one sentence without its full stop
	Again          bool   // asking again may help: what was offered may have been taken before it was looked at
	FilterFailures []schedule.FilterFailure
}

// Claimed says that Choices[0] is held: the answer to Claim.
type Claimed struct{ Try int }

// ClaimLost says that Choices[0] can no longer be had and that nothing is held.
type ClaimLost struct {
	Try    int
	Reason string
}

// Mustered says that enough servers of one request have found a place: the answer to Muster.
type MinCountReached struct{}

// MusterFailed says that too few servers of one request can find a place: the other answer to Muster.
type MinCountFailed struct{ Reason string }

// Rekeyed says that the migration holds what the server held: the answer to Rekey.
type AllocationsMoved struct{}

// Restored says that the server holds again what its migration held: the answer to Restore.
type AllocationsRestored struct{}

// Dropped says that a consumer of Left holds nothing any more: the answer to Drop.
type LeftoverReleased struct{ Consumer string }

// Refused says that a step cannot be done, now or later, for a reason that is not about capacity.
type Refused struct {
	Step   Step
	Reason string
}

// Stumbled says that a step could not be done now and will be tried again.
type StepFailed struct {
	Step    Step
	Reason  string
	Refused bool // it was told no, and nothing says that it will not be told so again
}

// Released says that the server holds nothing in Placement any more: the answer to Release.
type Released struct{}

// Told is one of the Guest… events that follow, and where it stands among all that its agent has said: words may overtake each other on
// their way, and what is older than what is known must change nothing.
type Report struct {
	Host     string
	Instance string // of the agent
	Number   int64  // larger than in all that this instance has said before
	Event    Event
}

// GuestClaimed comes from the agent of Host: the devices are picked, the guest is being built.
type GuestClaimed struct {
	Host     string
	Consumer string // the consumer that the agent knows the guest by; empty: the server's own id
	Devices  []schedule.Picked
	Cells    []numa.Placed
	Build    int
}

// GuestRunning comes from the agent of Host: the guest runs with these devices.
type GuestRunning struct {
	Host     string
	Consumer string
	Devices  []schedule.Picked
	Cells    []numa.Placed
	Build    int
}

// GuestStopped comes from the agent of Host: the guest is there with these devices and does not run.
type GuestStopped struct {
	Host     string
	Consumer string
	Devices  []schedule.Picked
	Cells    []numa.Placed
	Build    int
}

// GuestRefused comes from the agent of Host: the guest is there with these devices, and the hypervisor will not start, stop or rebuild it
// as it shall. It stays as it is.
type GuestRefused struct {
	Host     string
	Consumer string
	Devices  []schedule.Picked
	Cells    []numa.Placed
	Build    int  // of the guest that is there
	Stopped  bool // it does not run
	Message  string
}

// GuestDeparted comes from the agent of Host: the guest runs where it was to go by live migration.
type GuestMigrated struct{ Host, Consumer string }

// GuestFailed comes from the agent of Host: the guest cannot be built or kept there, and nothing of it is left. Of one that was to
// be migrated live: it cannot leave, and runs there as before.
type GuestFailed struct {
	Host     string
	Consumer string
	Message  string
}

// GuestGone comes from the agent of Host: nothing of the guest is left.
type GuestGone struct{ Host, Consumer string }

// HostDead comes from an operator: the host is gone for good, and so is everything on it.
type HostDead struct{ Host string }

// DeleteRequested comes from a user.
type DeleteRequested struct {
	Silent bool // no agent that could say that the guest is gone reports now: to users the server is deleted at once
	Exists bool // the server's host reports a guest of it, which a database from a backup may not know
}

// Action is what a user may ask of a server, by the Compute API's word.
type Action string

// The actions.
const (
	Start    Action = "start"
	Stop     Action = "stop"
	Reboot   Action = "reboot"
	Rebuild  Action = "rebuild"
	Resize   Action = "resize"
	Migrate  Action = "migrate"
	Live     Action = "os-migrateLive"
	Evacuate Action = "evacuate"
	Confirm  Action = "confirmResize"
	Revert   Action = "revertResize"
	Shelve   Action = "shelve"
	Offload  Action = "shelveOffload"
	Unshelve Action = "unshelve"
	Reset    Action = "os-resetState"
)

// Asked comes from a user or an operator. Next takes it in when Refuse has nothing against it, and then Server.Asked is its ID.
type ActionRequested struct {
	ID     string // of this wish, a UUID; of a move it becomes the consumer that holds the source's devices
	Action Action

	Hard          bool          // Reboot: also when the guest does not run
	Image         string        // Rebuild: from this image; empty: from the one it has
	ImageSnapshot *flavor.Image // Rebuild: that image as it is now, which flavor.Rebuilt has let through; nil: nobody looked for it
	Name          string        // Rebuild: the new name; empty: as it is
	To            string        // moves: this host and no other; empty: any
	SameHost      bool          // Resize, Migrate: the host where it is will do
	Flavor        flavor.Flavor // Resize
	Request       resource.Ask  // Resize
	Requests      []pci.Request // Resize
	Topology      []numa.Part   // Resize
	Error         bool          // Reset: to ERROR; else to what it was before it
}

func (Created) event()             {}
func (Chosen) event()              {}
func (NoValidHost) event()         {}
func (Claimed) event()             {}
func (ClaimLost) event()           {}
func (MinCountReached) event()     {}
func (MinCountFailed) event()      {}
func (AllocationsMoved) event()    {}
func (AllocationsRestored) event() {}
func (LeftoverReleased) event()    {}
func (Refused) event()             {}
func (StepFailed) event()          {}
func (Released) event()            {}
func (Report) event()              {}
func (GuestClaimed) event()        {}
func (GuestRunning) event()        {}
func (GuestStopped) event()        {}
func (GuestRefused) event()        {}
func (GuestMigrated) event()       {}
func (GuestFailed) event()         {}
func (GuestGone) event()           {}
func (HostDead) event()            {}
func (DeleteRequested) event()     {}
func (ActionRequested) event()     {}
