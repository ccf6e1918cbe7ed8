package lifecycle

import (
	"slices"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Server is the record of one server: its definition and its state.
//
// The creator of a server fills in the first block of fields and passes the record to Next with Created. Only Next
// changes the other fields.
//
// Up to three kinds of consumers hold the allocations of a server: its own (ID), whose residence is in Host, Requests,
// Devices and so on; during a move the migration, which holds the source (Move.From); and those of Leftovers, which
// only wait to be released.
type Server struct {
	ID, Name      string
	Description   string
	Project, User string
	Image         string // UUID, or empty
	// the image as it was when the server was created; nil: not looked up
	ImageSnapshot *flavor.Image `json:",omitempty"`
	KeyName       string
	Zone          string // availability zone, shown only
	Metadata      map[string]string
	Tags          []string
	Flavor        flavor.Flavor // as it was when the server was created or resized
	Ask           resource.Ask  // the request to Placement
	Requests      []pci.Request // Providers are set when a choice has been claimed
	// number of servers of one request that must be claimed before any is built; 0 and 1: no minimum
	MinCount int `json:",omitempty"`

	State State
	Host  string // current or planned host; empty before a choice
	// the agent of Host has reported the guest, so something of it may exist there
	Reported bool
	// the guest's earlier consumer on Host, until the agent reports the guest by the server's id
	PreviousConsumer string `json:",omitempty"`
	Round            int    // how often candidates have been requested
	Try              int    // number of claims started; identifies the claim that a result belongs to
	// the first is being claimed or is claimed; the others are used if that claim is lost
	Choices     []schedule.Choice
	FailedHosts map[string]string // hosts where the guest failed, and why
	// why candidates of the last round were refused, the most frequent reason first
	FilterFailures []schedule.FilterFailure `json:",omitempty"`
	Devices        []schedule.Picked        // the devices that the agent assigned
	Topology       []numa.GuestCell         `json:",omitempty"` // its NUMA cells, from the flavor; nil: none
	// the host cells they are placed on, as the agent reports
	Cells []numa.Placed `json:",omitempty"`
	Power Power         `json:",omitempty"` // the desired power state of the guest
	// the guest does not run, according to the last report
	Stopped bool `json:",omitempty"`
	// the action in progress on the guest in state Active, or empty
	Task            Task  `json:",omitempty"`
	Builds          int   `json:",omitempty"` // how often the guest has been rebuilt
	Shelved         bool  `json:",omitempty"` // the server is shelved or being unshelved
	MinCountReached bool  `json:",omitempty"` // MinCount servers of its request have been claimed
	Move            *Move `json:",omitempty"` // the move in progress, or nil
	// residences left behind on hosts, until their agents report that they are gone
	Leftovers []Residence `json:",omitempty"`
	// the last report of each agent about the server, the newest last
	LastReports []LastReport `json:",omitempty"`
	Migration   *Migration   `json:",omitempty"` // the current or last move, as shown to operators
	LastAction  string       `json:",omitempty"` // id of the last accepted action
	Fault       *Fault       // why the server is in ERROR
	PreRebuild  *PreRebuild  `json:",omitempty"` // what a rebuild in progress replaces
	// why the last action on the guest was refused; the server itself is not in ERROR
	Refusal   *Fault         `json:",omitempty"`
	History   []HistoryEntry // the events, oldest first; bounded
	Created   time.Time
	Updated   time.Time
	Launched  time.Time // when the guest first ran; zero before
	Ended     time.Time // when the server was deleted, as shown to users; zero before
	Requested time.Time // when its deletion was requested; zero before

	Revision int64 // of the record; the store increments it
}

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

// LastReport is the number of the last report about the server from one start of an agent.
type LastReport struct {
	Host, Instance string
	Number         int64
}

// PreRebuild is what a rebuild replaces. It is restored if the hypervisor refuses the rebuild.
type PreRebuild struct {
	Name, Image   string
	ImageSnapshot *flavor.Image `json:",omitempty"`
	Ask           resource.Ask
}

// Move is a move in progress.
type Move struct {
	Kind            Kind
	To              string // the only permitted host; empty: any
	SameHostAllowed bool   // the source host is permitted as destination
	// holds the source: the migration's id, or an earlier one that the agent may know the guest by
	Consumer         string
	From             Residence // the source. Its consumer is the server until AllocationsMoved
	AllocationsMoved bool      // Consumer holds the source's allocations
	StopSource       bool      // the guest at From must be stopped
	SourceStopped    bool      // the guest at From has stopped
	Reverting        bool      // the move is being reverted
	Failed           string    // why the move was given up, or empty
	SourceLost       string    // why the guest at From no longer exists, or empty
	// how often Placement has refused to restore the server's allocations
	Refusals int `json:",omitempty"`
}

// Kind is the kind of a move, as the Compute API names it.
type Kind string

// The kinds of moves.
const (
	Resizing      Kind = "resize"
	Migrating     Kind = "migration"
	LiveMigration Kind = "live-migration"
	Evacuating    Kind = "evacuation"
)

// Migration is the description of a move for operators, in the terms of the Compute API.
type Migration struct {
	ID   string // the consumer
	Kind Kind
	// accepted, pre-migrating, migrating, finished, confirmed, reverted, completed, error, cancelled
	Status               string
	From, To             string // hosts; To is empty before a choice
	OldFlavor, NewFlavor string // ids
	Begun, Updated       time.Time
}

// Power is the desired power state of a guest.
type Power string

// The power states.
const (
	On  Power = ""
	Off Power = "off" // the guest keeps its devices
)

// Fault is the message shown to users on a server in ERROR.
type Fault struct {
	Code    int // as in the Compute API: 500 for all faults of this package
	Message string
	Details string // more text, for operators
	Created time.Time
}

// HistoryEntry is one line of a server's history.
type HistoryEntry struct {
	At    time.Time // time of the last occurrence
	Text  string
	Times int // number of consecutive occurrences, at least 1
}

// Step is an operation on another service that a server needs.
type Step string

// The steps. Each may be repeated, also when its outcome is unknown.
const (
	Schedule           Step = "schedule" // request and filter candidates → Chosen, NoValidHost or Refused
	Claim              Step = "claim"    // claim Choices[0] in Placement → Claimed, ClaimLost or Refused
	CheckMinCount      Step = "muster"   // check the other servers of the request → MinCountReached or MinCountFailed
	Release            Step = "release"  // release all allocations of the server's own consumer → Released
	MoveAllocations    Step = "rekey"    // move the server's allocations to its migration → AllocationsMoved or Refused
	RestoreAllocations Step = "restore"  // move the migration's allocations to the server → AllocationsRestored
	// release the allocations of the first leftover that is gone → LeftoverReleased
	ReleaseLeftover Step = "drop"
)

// SourceImage returns the image that the server was created from, as it was then. If it was not looked up, only its id
// is set.
func (s Server) SourceImage() flavor.Image {
	if s.ImageSnapshot == nil {
		return flavor.Image{ID: s.Image}
	}
	return *s.ImageSnapshot
}

// Steps lists the due steps of the server in the order in which they must be performed.
func (s Server) Steps() []Step {
	if _, ok := s.NextLeftover(); ok {
		return append([]Step{ReleaseLeftover}, s.State.Steps()...)
	}
	return s.State.Steps()
}

// NextLeftover returns the first leftover whose allocations can be released, and whether there is one.
func (s Server) NextLeftover() (Residence, bool) {
	i := slices.IndexFunc(s.Leftovers, func(l Residence) bool { return l.Gone })
	if i < 0 {
		return Residence{}, false
	}
	return s.Leftovers[i], true
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

// AllocatedHost returns the host whose devices the server's own consumer may hold, or an empty string. Residences also
// lists the hosts of the other consumers.
func (s Server) AllocatedHost() string {
	switch s.State {
	case AwaitingMinCount, StoppingSource, PreLiveMigration, LiveMigrating, Spawning, Active, Resized, Reverting,
		Shelving, DeletingGuest:
		return s.Host
	}
	return ""
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

// Assignment returns the host whose assignments contain the server under its own id, or an empty string. A server that
// is being deleted still has an AllocatedHost but no assignment.
func (s Server) Assignment() string {
	switch s.State {
	case PreLiveMigration, LiveMigrating, Spawning, Active, Resized:
		return s.Host
	}
	if s.Move != nil && !s.Move.AllocationsMoved && s.Requested.IsZero() {
		return s.Move.From.Host // the source is unchanged so far
	}
	return ""
}

// Entry is one entry in the assignments of a host.
type Entry struct {
	Residence
	Power     Power
	Incoming  bool              // the guest will arrive by live migration
	Outgoing  string            // destination host of the live migration, or empty
	DeviceMap map[string]string // device address here → device address at the destination; set with Outgoing
}

// Entries lists the entries of the server in the assignments of hosts: at most two for one host.
func (s Server) Entries() []Entry {
	var list []Entry
	switch s.State {
	case PreLiveMigration, LiveMigrating:
		list = append(list, Entry{Residence: s.ownResidence(), Incoming: true})
	case Spawning, Resized:
		list = append(list, Entry{Residence: s.ownResidence(), Power: s.Power})
	case Active:
		e := Entry{Residence: s.ownResidence(), Power: s.Power}
		if s.Task == Rebooting || s.Task == RebootingHard {
			e.Power = Off // until the guest has stopped
		}
		list = append(list, e)
	}
	if m := s.Move; m != nil && !m.From.Gone && s.Requested.IsZero() {
		e := Entry{Residence: m.From, Power: s.Power}
		if m.StopSource {
			e.Power = Off
		}
		if s.State == LiveMigrating {
			e.Outgoing, e.DeviceMap = s.Host, pairUp(m.From.Devices, s.Devices)
		}
		list = append(list, e)
	}
	return list
}

// Removal is a guest that must be destroyed on a host.
type Removal struct {
	Host             string
	Consumer         string // its id in the assignments of the host
	PreviousConsumer string // earlier id that the agent may still know the guest by, or empty
}

// Removals lists the guests of the server that must be destroyed: those of residences without an entry in the
// assignments. Residences where nothing has been built yet are omitted.
func (s Server) Removals() []Removal {
	entries := s.Entries()
	var list []Removal
	for _, res := range s.Residences() {
		assigned := func(id string) bool {
			return slices.ContainsFunc(entries, func(e Entry) bool { return e.Host == res.Host && e.Consumer == id })
		}
		unbuilt := res.Consumer == s.ID && (s.State == AwaitingMinCount || s.State == StoppingSource)
		if unbuilt || res.Gone || res.Host == "" || assigned(res.Consumer) {
			continue
		}
		r := Removal{Host: res.Host, Consumer: res.Consumer, PreviousConsumer: res.PreviousConsumer}
		if assigned(res.PreviousConsumer) {
			r.PreviousConsumer = ""
		}
		list = append(list, r)
	}
	return list
}

// pairUp maps the addresses of the devices here to those of the devices there: same request, in order.
func pairUp(here, there []schedule.Picked) map[string]string {
	next := map[string][]string{}
	for _, d := range there {
		next[d.RequestID] = append(next[d.RequestID], d.Address)
	}
	out := map[string]string{}
	for _, d := range here {
		if list := next[d.RequestID]; len(list) > 0 {
			out[d.Address], next[d.RequestID] = list[0], list[1:]
		}
	}
	return out
}

// Shown returns the residence that users see: the source while a move is in progress, otherwise the server's own.
func (s Server) Shown() Residence {
	if s.Move != nil && s.State != Resized && s.State != Reverting {
		return s.Move.From
	}
	return s.ownResidence()
}
