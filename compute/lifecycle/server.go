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

// Server is the record of one server: everything that is known of it, and where it is on its way.
//
// Whoever makes one fills in the first block and gives it to Next with Created; only Next changes the rest.
//
// What a server holds is held by consumers: the one with its own id, whose stay is in Host, Requests, Devices, …; while it moves,
// that of the migration, which keeps what it had before (Move.From); and those of Left, of which nothing but the end is awaited.
type Server struct {
	ID, Name      string
	Description   string
	Project, User string
	Image         string        // UUID, or empty
	ImageSnapshot *flavor.Image `json:",omitempty"` // that image as it was when the server was made from it; nil: nobody looked for it
	KeyName       string
	Zone          string // availability zone, shown only
	Metadata      map[string]string
	Tags          []string
	Flavor        flavor.Flavor // as it was when the server was created or resized
	Ask           resource.Ask  // the question to Placement
	Requests      []pci.Request // Providers are filled in when a choice has been claimed
	MinCount      int           `json:",omitempty"` // so many servers of its request must find a place, or none is built; 0 and 1: each by itself

	State            State
	Host             string                   // where it is or was meant to be; empty before a choice
	Reported         bool                     // the agent of Host has told of this server, so something of it may be there
	PreviousConsumer string                   `json:",omitempty"` // the consumer under which the guest stood on Host before, until its agent speaks of it by its id
	Round            int                      // how often candidates have been asked for
	Try              int                      // how many claims have been begun; it tells a late answer from one that is awaited
	Choices          []schedule.Choice        // the first is being claimed or is claimed; the others are for when it is lost
	FailedHosts      map[string]string        // hosts where the guest failed, and why
	FilterFailures   []schedule.FilterFailure `json:",omitempty"` // why candidates of the last round were turned down, the most frequent first
	Devices          []schedule.Picked        // what the agent gave it
	Topology         []numa.Part              `json:",omitempty"` // its NUMA cells, of the flavor; nil: it has none
	Cells            []numa.Placed            `json:",omitempty"` // where they lie, as the agent says
	Power            Power                    `json:",omitempty"` // what its guest shall do
	Stopped          bool                     `json:",omitempty"` // its guest does not run, as far as the agent has told
	Task             Task                     `json:",omitempty"` // what is being done to its guest in state Active, or empty
	Builds           int                      `json:",omitempty"` // how often it has been rebuilt
	Shelved          bool                     `json:",omitempty"` // it is shelved, or being unshelved
	MinCountReached  bool                     `json:",omitempty"` // enough servers of its request have found a place
	Move             *Move                    `json:",omitempty"` // the move that it is on, or nil
	Leftovers        []Residence              `json:",omitempty"` // what is left behind on hosts, until their agents say that it is gone
	LastReports      []LastReport             `json:",omitempty"` // the last that agents have said of it, the last last
	Migration        *Migration               `json:",omitempty"` // the present or the last move, as told to operators
	LastAction       string                   `json:",omitempty"` // id of the last wish that was taken in
	Fault            *Fault                   // why it is in ERROR
	PreRebuild       *PreRebuild              `json:",omitempty"` // what a rebuild replaces that is not done yet
	Refusal          *Fault                   `json:",omitempty"` // why the last wish about its guest was given up, while all else is well
	History          []HistoryEntry           // what happened, oldest first; bounded
	Created          time.Time
	Updated          time.Time
	Launched         time.Time // when it first ran; zero before
	Ended            time.Time // when it was deleted, as users see it; zero before
	Requested        time.Time // when its deletion was asked for; zero before

	Revision int64 // of the record; the store counts it
}

// Stay is what one consumer has on one host.
type Residence struct {
	Consumer         string // who holds it in Placement, and its id in the assignments of the host
	PreviousConsumer string // under which id the guest stood there before, until its agent speaks of it by the new one
	Host             string
	Flavor           flavor.Flavor
	Ask              resource.Ask
	Requests         []pci.Request
	Choice           *schedule.Choice // what was claimed
	Devices          []schedule.Picked
	Topology         []numa.Part
	Cells            []numa.Placed
	Reported         bool // the agent has told of it
	Gone             bool // nothing of it is left on the host
}

// Voice is the last that was heard of a server from an agent.
type LastReport struct {
	Host, Instance string
	Number         int64
}

// Undone is what a server was before a rebuild, for the case that the hypervisor refuses it.
type PreRebuild struct {
	Name, Image   string
	ImageSnapshot *flavor.Image `json:",omitempty"`
	Ask           resource.Ask
}

// Move is a move on its way.
type Move struct {
	Kind             Kind
	To               string    // this host and no other; empty: any
	SameHostAllowed  bool      // the host where it is will do
	Consumer         string    // the consumer that keeps what it had: the migration's id, or an older one's by which the agent may know the guest
	From             Residence // what it had before. Its consumer is the server until As holds it
	AllocationsMoved bool      // As holds it
	StopSource       bool      // the guest at From is to be stopped
	SourceStopped    bool      // it has stopped
	Reverting        bool      // it is being reverted
	Failed           string    // why it was given up, or empty
	SourceLost       string    // why the guest at From is no more, or empty
	Refusals         int       `json:",omitempty"` // how often Placement has refused to give the server back what the migration holds
}

// Kind is what kind of move it is, by the Compute API's words.
type Kind string

// The kinds.
const (
	Resizing      Kind = "resize"
	Migrating     Kind = "migration"
	LiveMigration Kind = "live-migration"
	Evacuating    Kind = "evacuation"
)

// Migration is what operators are told of a move, in the Compute API's words.
type Migration struct {
	ID                   string // the consumer
	Kind                 Kind
	Status               string // accepted, pre-migrating, migrating, finished, confirmed, reverted, completed, error, cancelled
	From, To             string // hosts; To is empty before a choice
	OldFlavor, NewFlavor string // ids
	Begun, Updated       time.Time
}

// Power is what a guest shall do.
type Power string

// The powers.
const (
	On  Power = ""
	Off Power = "off" // it keeps its devices
)

// Fault is the sentence that a user reads on a server in ERROR.
type Fault struct {
	Code    int // as the Compute API has it: 500 for all that are made here
	Message string
	Details string // more sentences, for operators
	Created time.Time
}

// Mark is one line of a server's trail.
type HistoryEntry struct {
	At    time.Time // of the last time
	Text  string
	Times int // how often in a row the same was marked; 1 for once
}

// Step is something to be done for a server, outside of it.
type Step string

// The steps. Each may be repeated, also when nobody knows whether it was done.
const (
	Schedule           Step = "schedule" // ask for candidates, judge them → Chosen, NothingFits or Refused
	Claim              Step = "claim"    // claim Choices[0] in Placement → Claimed, ClaimLost or Refused
	CheckMinCount      Step = "muster"   // see how the others of the request fare → Mustered or MusterFailed
	Release            Step = "release"  // give back whatever the server holds in Placement → Released
	MoveAllocations    Step = "rekey"    // what the server holds becomes its migration's → Rekeyed or Refused
	RestoreAllocations Step = "restore"  // what its migration holds becomes the server's → Restored
	ReleaseLeftover    Step = "drop"     // give back what the first consumer of Left that is gone holds → Dropped
)

// Likeness is the image that the server was made from, as it was then: by its id only when nobody looked for it.
func (s Server) SourceImage() flavor.Image {
	if s.ImageSnapshot == nil {
		return flavor.Image{ID: s.Image}
	}
	return *s.ImageSnapshot
}

// Steps lists what is to be done for the server now, first things first.
func (s Server) Steps() []Step {
	if _, ok := s.NextLeftover(); ok {
		return append([]Step{ReleaseLeftover}, s.State.Steps()...)
	}
	return s.State.Steps()
}

// Dropping is the stay whose consumer is to give back what it holds.
func (s Server) NextLeftover() (Residence, bool) {
	i := slices.IndexFunc(s.Leftovers, func(l Residence) bool { return l.Gone })
	if i < 0 {
		return Residence{}, false
	}
	return s.Leftovers[i], true
}

// own is the stay of the server's own consumer.
func (s Server) own() Residence {
	stay := Residence{Consumer: s.ID, PreviousConsumer: s.PreviousConsumer, Host: s.Host, Flavor: s.Flavor, Ask: s.Ask, Requests: s.Requests,
		Devices: s.Devices, Topology: s.Topology, Cells: s.Cells, Reported: s.Reported}
	if len(s.Choices) > 0 {
		stay.Choice = &s.Choices[0]
	}
	return stay
}

// Placed is the host whose devices the server's own consumer may hold, or empty. Stays has those of its other consumers too.
func (s Server) AllocatedHost() string {
	switch s.State {
	case AwaitingMinCount, StoppingSource, PreLiveMigration, LiveMigrating, Spawning, Active, Resized, Reverting, Shelving, DeletingGuest:
		return s.Host
	}
	return ""
}

// Stays are what the server's consumers may have on hosts.
func (s Server) Residences() []Residence {
	var list []Residence
	if s.AllocatedHost() != "" {
		list = append(list, s.own())
	}
	if s.Move != nil {
		list = append(list, s.Move.From)
	}
	return append(list, s.Leftovers...)
}

// Assignment is the host in whose assignments the server stands under its own id, or empty. A server that is being deleted
// is still Placed but no longer assigned.
func (s Server) Assignment() string {
	switch s.State {
	case PreLiveMigration, LiveMigrating, Spawning, Active, Resized:
		return s.Host
	}
	if s.Move != nil && !s.Move.AllocationsMoved && s.Requested.IsZero() {
		return s.Move.From.Host // nothing has begun there
	}
	return ""
}

// Entry is one entry of a host's assignments.
type Entry struct {
	Residence
	Power     Power
	Incoming  bool              // it will arrive by live migration
	Outgoing  string            // the host to which it goes by live migration, or empty
	DeviceMap map[string]string // address here → address there, of one that goes
}

// Entries are what the server is in the assignments of hosts: of one host, two at most.
func (s Server) Entries() []Entry {
	var list []Entry
	switch s.State {
	case PreLiveMigration, LiveMigrating:
		list = append(list, Entry{Residence: s.own(), Incoming: true})
	case Spawning, Resized:
		list = append(list, Entry{Residence: s.own(), Power: s.Power})
	case Active:
		e := Entry{Residence: s.own(), Power: s.Power}
		if s.Task == Rebooting || s.Task == RebootingHard {
			e.Power = Off // until it has stopped
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
	Host     string
	Consumer string // its id in the assignments of the host
	Was      string // the id under which the agent may still know it, or empty
}

// Removals lists the guests of the server that must be destroyed: those of stays that no entry of the assignments
// mentions. A stay at which nothing has been built yet is none.
func (s Server) Removals() []Removal {
	entries := s.Entries()
	var list []Removal
	for _, stay := range s.Residences() {
		named := func(id string) bool {
			return slices.ContainsFunc(entries, func(e Entry) bool { return e.Host == stay.Host && e.Consumer == id })
		}
		own := stay.Consumer == s.ID && (s.State == AwaitingMinCount || s.State == StoppingSource)
		if own || stay.Gone || stay.Host == "" || named(stay.Consumer) {
			continue
		}
		r := Removal{Host: stay.Host, Consumer: stay.Consumer, Was: stay.PreviousConsumer}
		if named(stay.PreviousConsumer) {
			r.Was = ""
		}
		list = append(list, r)
	}
	return list
}

// pairUp matches the devices here with those there: the same request, in order.
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

// Shown is the stay that users see: while a move is on its way and not to be confirmed yet, the one before it.
func (s Server) Shown() Residence {
	if s.Move != nil && s.State != Resized && s.State != Reverting {
		return s.Move.From
	}
	return s.own()
}
