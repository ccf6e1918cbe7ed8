package lifecycle

import (
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Event is something that happened to a server.
type Event interface{ event() }

// Created is the first event of a server.
type Created struct{}

// Prepared is the result of Prepare: what the server requests. Its request ids are stored once, also when the step is
// repeated.
type Prepared struct {
	Ask      resource.Ask
	Requests []pci.Request
	Topology []numa.GuestCell
}

// Chosen is the result of Schedule if some candidates passed the filters.
type Chosen struct {
	Choices        []schedule.Choice        // best first, at least one
	Candidates     int                      // number of candidates that Placement returned
	Refused        string                   // summary of the refusals, or empty
	FilterFailures []schedule.FilterFailure // the refusals by filter and reason
	Search         schedule.Search          // how many hosts each clause left
	Ports          []Port                   // the server's ports, as they are now
	PortDevices    []pci.Request            // the devices that they need
}

// NoValidHost is the result of Schedule if no candidate passed the filters.
type NoValidHost struct {
	Candidates     int    // number of candidates that Placement returned
	Reason         string // one sentence without its full stop
	Again          bool   // another round may help: candidates may have been taken before they were filtered
	FilterFailures []schedule.FilterFailure
	Search         schedule.Search // how many hosts each clause left, and the nearest misses
}

// Claimed is the result of Claim if the server's consumer holds Choices[0].
type Claimed struct{ Try int }

// ClaimLost is the result of Claim if Choices[0] is no longer available. The server's consumer holds nothing.
type ClaimLost struct {
	Try    int
	Reason string
}

// MinCountReached is the result of CheckMinCount if enough servers of the request have been claimed.
type MinCountReached struct{}

// MinCountFailed is the result of CheckMinCount if too few servers of the request can be claimed.
type MinCountFailed struct{ Reason string }

// AllocationsMoved is the result of MoveAllocations: the migration holds what the server held.
type AllocationsMoved struct{}

// AllocationsRestored is the result of RestoreAllocations: the server holds again what its migration held.
type AllocationsRestored struct{}

// LeftoverReleased is the result of ReleaseLeftover: a consumer of Leftovers holds nothing any more.
type LeftoverReleased struct{ Consumer string }

// ImageCreated is the result of CreateImage: the image service has the image.
type ImageCreated struct{ ID string }

// ImageChecked is the result of CheckImage: the image service has the data that was uploaded.
type ImageChecked struct {
	ID   string
	Keep bool // a server that is shelved keeps its guest on its host
}

// ImageDeleted is the result of DeleteImage: the image service has no such image, or it finally refuses to delete it.
type ImageDeleted struct {
	ID      string
	Refused string // why the image stays; empty: it is deleted
}

// Refused is the result of a step that cannot succeed, now or later, for a reason other than capacity.
type Refused struct {
	Step   Step
	Reason string
}

// StepFailed is the result of a step that failed and will be retried.
type StepFailed struct {
	Step    Step
	Reason  string
	Refused bool // the other service refused the request and may refuse it again
}

// Released is the result of Release: the server's own consumer holds nothing in Placement any more.
type Released struct{}

// Report is one of the Guest… events below with its sequence number. Reports may arrive out of order; a report that is
// older than the last applied one must not change anything.
type Report struct {
	Host     string
	Instance string // of the agent
	Number   int64  // larger than in all earlier reports of this instance
	Event    Event
}

// GuestClaimed is reported by the agent of Host: the devices are picked, the guest is being built.
type GuestClaimed struct {
	Host     string
	Consumer string // the consumer by which the agent knows the guest; empty: the server's own id
	Devices  []schedule.Picked
	Cells    []numa.Placed
	Build    int
}

// GuestRunning is reported by the agent of Host: the guest runs with these devices.
type GuestRunning struct {
	Host     string
	Consumer string
	Devices  []schedule.Picked
	Cells    []numa.Placed
	Build    int
	Ports    []string    // those whose interfaces the guest has
	Happened string      // what the agent has done to the guest without a request; empty: nothing
	Upload   *DiskUpload // of a copy of the guest's disk; nil: none was requested, or it is in progress
	Paused   bool        // its CPUs do not run
	Rescue   string      // the image that it boots instead of its disk; empty: none
}

func (e GuestRunning) power() Power {
	if e.Paused {
		return Paused
	}
	return On
}

// GuestStopped is reported by the agent of Host: the guest exists with these devices and does not run.
type GuestStopped struct {
	Host     string
	Consumer string
	Devices  []schedule.Picked
	Cells    []numa.Placed
	Build    int
	Ports    []string // as in GuestRunning
	// it should run, and its operating system has shut down; or it should be paused or suspended, and has ended
	ShutDown  bool
	Upload    *DiskUpload // of the guest's disk; nil: none was requested, or it is in progress
	Happened  string      // as in GuestRunning
	Suspended bool        // it continues with the memory that it had
	Rescue    string      // as in GuestRunning
}

func (e GuestStopped) power() Power {
	if e.Suspended {
		return Suspended
	}
	return Off
}

// GuestRefused is reported by the agent of Host: the guest exists with these devices, and the hypervisor refuses to
// start, stop or rebuild it as requested. The guest is unchanged.
type GuestRefused struct {
	Host     string
	Consumer string
	Devices  []schedule.Picked
	Cells    []numa.Placed
	Build    int // of the existing guest
	Power    Power
	Rescue   string // as in GuestRunning
	Message  string
	RetryIn  time.Duration // until the agent tries again; 0: it is not known
}

// GuestMigrated is reported by the agent of Host, the source of a live migration: the guest runs at the destination.
type GuestMigrated struct{ Host, Consumer string }

// GuestFailed is reported by the agent of Host: the guest cannot be built or kept there, and nothing of it is left. At
// the source of a live migration it means that the migration failed and the guest runs there as before.
type GuestFailed struct {
	Host     string
	Consumer string
	Message  string
	Removed  []string // as in GuestGone
}

// GuestGone is reported by the agent of Host: nothing of the guest is left.
type GuestGone struct {
	Host, Consumer string
	Removed        []string // the ids under which nothing is left; empty: the agent does not report them
}

// guestReport is one of the Guest… events above: what an agent reports about a guest.
type guestReport struct {
	state          string
	host, consumer string
	devices        []schedule.Picked
	cells          []numa.Placed
	build          int
	ports          []string // with states running and stopped
	message        string
	power          Power  // with states running, stopped and refused
	rescue         string // likewise
	retryIn        time.Duration
	happened       string      // with states running and stopped
	shutDown       bool        // with state stopped
	upload         *DiskUpload // with states running and stopped
	removed        []string    // with states gone and failed
}

// HostDead is declared by an operator: the host and everything on it are lost permanently.
type HostDead struct{ Host string }

// HostUnresponsive is decided by compute: the agent of Host has not followed its assignments in time, or reports that
// its hypervisor can build no guests. A server that has no guest there continues on another host.
type HostUnresponsive struct {
	Host   string
	Reason string
	Stays  string // why the server waits for Host, as a clause; empty: another host can have it
	// Hypervisor: the agent works, and its hypervisor does not. What the hypervisor may still make of a guest that was
	// begun is removed by the agent, for which compute names it.
	Hypervisor bool
}

// DeleteRequested is a user's request to delete the server.
type DeleteRequested struct {
	By     Caller
	Silent bool // no agent reports that could confirm the removal now: users see the server as deleted at once
	Exists bool // the server's host has or may have a guest of it; a database restored from a backup may lack it
	// the network service may have ports of the server that its record lacks, for the same reason
	MayHavePorts bool

	Soft     bool      // keep the guest, so that the server can be restored, if it has one
	Reclaims time.Time // the soft deletion that it ends; zero: it is a request of a user
}

// EvacuateOptions are how a server is evacuated.
type EvacuateOptions struct {
	KeepStopped bool // the guest is not started at the destination
	LosesDisk   bool // the guest's disk is on the host that is left
}

// OffloadDue is decided by compute: the server has been shelved on its host long enough.
type OffloadDue struct{ ShelvedAt time.Time }

// ActionRequested is an action requested by a user or an operator. Next accepts it if Refuse returns an empty string;
// Server.LastAction is its ID then.
type ActionRequested struct {
	ID     string // of this request, a UUID; a move uses it as the consumer that holds the source's devices
	Action Action
	By     Caller

	EvacuateOptions

	Hard          bool          // Reboot: also if the guest does not run
	Image         string        // Rebuild: the image; empty: the present one. Rescue: the image to boot
	ImageSnapshot *flavor.Image // Rebuild: the image as it is now, accepted by flavor.CheckRebuild; nil: not looked up
	Name          string        // Rebuild: the new name; empty: unchanged
	FirstBoot     *FirstBoot    // Rebuild: what the guest reads when it boots; nil: unchanged
	Details       DetailsChange // Rebuild, Resize: what describes the server
	AdminPass     string        // Rebuild, Evacuate, Rescue: the password of the guest
	To            string        // moves, Unshelve: the only permitted host; empty: any
	Zone          *string       // Unshelve: the availability zone that the server gets, empty: any; nil: unchanged
	SameHost      bool          // Resize: the present host is permitted as destination
	Flavor        flavor.Flavor // Resize: the new flavor
	// Resize: what the new flavor requests of each resource class
	Amounts    resource.Amounts
	DiskFormat string    // Shelve: format of the image that gets the guest's disk; empty: the guest has no disk
	Copy       ImageCopy // Snapshot, Backup: the image that gets a copy of the disk, in DiskFormat
	ToError    bool      // Reset: set ERROR; false: clear it
	Migration  string    // AbortLive, ForceLive: id of the migration, which must be the present one
}

func (Created) event()             {}
func (Prepared) event()            {}
func (Chosen) event()              {}
func (NoValidHost) event()         {}
func (Claimed) event()             {}
func (ClaimLost) event()           {}
func (MinCountReached) event()     {}
func (MinCountFailed) event()      {}
func (AllocationsMoved) event()    {}
func (AllocationsRestored) event() {}
func (LeftoverReleased) event()    {}
func (ImageCreated) event()        {}
func (ImageChecked) event()        {}
func (ImageDeleted) event()        {}
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
func (HostUnresponsive) event()    {}
func (DeleteRequested) event()     {}
func (OffloadDue) event()          {}
func (ActionRequested) event()     {}
