package lifecycle

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// HostSearch is a search for a host, and when it ended.
type HostSearch struct {
	At time.Time
	schedule.Search
}

// Server is the record of one server: its definition and its state.
//
// The creator of a server fills in the first block of fields, except Ask and Requests, and passes the record to Next
// with Created. Only Next changes the other fields.
//
// Up to three kinds of consumers hold the allocations of a server: its own (ID), whose residence is in Host, Requests,
// Devices and so on; during a move the migration, which holds the source (Move.From); and those of Leftovers, which
// only wait to be released.
type Server struct {
	ID, Name      string
	Description   string
	Project, User string
	CreateRequest string `json:",omitempty"` // id of the request that has created it: req-UUID
	Image         string // UUID, or empty
	// the image as it was when the server was created; nil: not looked up
	ImageSnapshot *flavor.Image `json:",omitempty"`
	FirstBoot
	Zone     string // the availability zone that was requested, which it does not leave; empty: any
	HostZone string // the availability zone of the host that was claimed last
	Metadata map[string]string
	Tags     []string
	Lock     *Lock `json:",omitempty"` // nil: not locked
	AccessIPs
	AutoDisk bool `json:",omitempty"` // OS-DCF:diskConfig is AUTO; shown only
	// config_drive was requested; shown only, because a driver that can make the drive always makes it
	ConfigDrive bool          `json:",omitempty"`
	Flavor      flavor.Flavor // as it was when the server was created or resized
	Ask         resource.Ask  // the request to Placement; empty before it is prepared
	Requests    []pci.Request // Providers are set when a choice has been claimed
	Group       string        // id of its server group; empty: none
	Target      string        // the only host on which it may be created or unshelved; empty: any
	// the scheduler hints same_host and different_host: ids of servers
	SameHost      []string `json:",omitempty"`
	DifferentHost []string `json:",omitempty"`
	// what the flavor requests of each resource class, for quotas until Ask is prepared; nil: nothing counts
	RequestedAmounts resource.Amounts `json:",omitempty"`
	// the same of requested ports that are not read yet, by the id of the port
	PortAmounts map[string]resource.Amounts `json:",omitempty"`
	// what ports request since they were recorded, by the id of the port; see ReportGuarantees
	Guarantees map[string]Guarantee `json:",omitempty"`
	// what ports get by changes of policies that are not complete, by the id of the change; see ReserveGuarantees
	Reserved map[string]resource.Amounts `json:",omitempty"`
	// number of servers of one request that must be claimed before any is built; 0 and 1: no minimum
	MinCount int `json:",omitempty"`

	State State  // Moving while Move is not nil
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
	Search         *HostSearch              `json:",omitempty"` // the last round, as it was; nil: there was none
	Devices        []schedule.Picked        // the devices that the agent assigned
	Topology       []numa.GuestCell         `json:",omitempty"` // its NUMA cells, from the flavor; nil: none
	Networks       []NetworkRequest         `json:",omitempty"` // what its ports are; nil: no port
	SecurityGroups []SecurityGroup          `json:",omitempty"` // of the ports that are created with the server
	Ports          []Port                   `json:",omitempty"` // as they were last read
	PortChange     *PortChange              `json:",omitempty"` // in state Active; nil: none
	PortQueue      []QueuedPortChange       `json:",omitempty"` // changes of ports that wait, the oldest first
	PortOutcomes   []PortOutcome            `json:",omitempty"` // results of the last changes of ports, the oldest first
	// why a port cannot be bound to Host, whose agent has to remove what it has of the guest unless the server is active;
	// empty: nothing is wrong
	PortsRefused string `json:",omitempty"`
	// those that the network service has deleted or has for another device, and that are not detached yet, the oldest
	// first
	DeletedPorts []string `json:",omitempty"`
	// the host cells they are placed on, as the agent reports
	Cells  []numa.Placed `json:",omitempty"`
	Power  Power         `json:",omitempty"` // the desired power state of the guest
	Actual Power         `json:",omitempty"` // of the guest, according to the last report
	// the image that the guest boots instead of its disk; empty: none
	RescueImage string `json:",omitempty"`
	Rescued     string `json:",omitempty"` // the image that it boots, according to the last report
	// the action in progress on the guest in state Active, or empty
	Task    Task `json:",omitempty"`
	Builds  int  `json:",omitempty"` // how often the guest has been rebuilt
	Shelved bool `json:",omitempty"` // the server is shelved or being unshelved
	// the image that gets or has the disk of the guest; nil: none
	ShelvedImage    *ShelvedImage `json:",omitempty"`
	UnusedImages    []string      `json:",omitempty"` // images that must be deleted, by id
	MinCountReached bool          `json:",omitempty"` // MinCount servers of its request have been claimed
	Move            *Move         `json:",omitempty"` // the move in progress, or nil
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
	// when it was deleted so that it can be restored until it is reclaimed; zero: it was not
	SoftDeleted time.Time
	ShelvedAt   time.Time // since when it is shelved and has its guest on Host still; zero: it is not

	Revision int64 // of the record; the store increments it

	group *schedule.ServerGroup // not stored; see WithGroup
	hints *schedule.HostHints   // not stored; see WithHints
	quota func(Server) error    // not stored; see WithQuota
	zones Zones                 // not stored; see WithZones
}

// Zones has the availability zones of hosts.
type Zones interface {
	Zone(host string) string
}

// LastReport is the number of the last report about the server from one start of an agent.
type LastReport struct {
	Host, Instance string
	Number         int64
}

// Migration is the description of a move for operators, in the terms of the Compute API.
type Migration struct {
	ID   string // the consumer
	Kind Kind
	// accepted, pre-migrating, migrating, finished, confirmed, reverted, completed, error, cancelled; of a live migration
	// preparing and running instead of pre-migrating and migrating
	Status               string
	From, To             string // hosts; To is empty before a choice
	OldFlavor, NewFlavor string // ids
	Begun, Updated       time.Time
	User, Project        string // of the caller that requested it; empty: not known
}

// Power is the power state of a guest.
type Power string

// The power states. The guest keeps its devices in all of them.
const (
	On        Power = ""
	Off       Power = "off"
	Paused    Power = "paused"    // its CPUs do not run
	Suspended Power = "suspended" // it does not run, and continues with the memory that it had
)

// Powers lists all power states.
func Powers() []Power { return []Power{On, Off, Paused, Suspended} }

// holds reports whether a guest in this state continues from where it was.
func (p Power) holds() bool { return p == Paused || p == Suspended }

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

	// Action is the action that begins with this entry, in the words of OpenStack's os-instance-actions; empty: none.
	// The other fields are set only with it: the request of the action and its caller.
	Action  string `json:",omitempty"`
	Request string `json:",omitempty"`
	User    string `json:",omitempty"`
	Project string `json:",omitempty"`
	Change  string `json:",omitempty"` // id of the change of a port; empty: it is another action
}

// PreRebuild is what a rebuild replaces. It is restored if the hypervisor refuses the rebuild.
type PreRebuild struct {
	Name, Image   string
	ImageSnapshot *flavor.Image `json:",omitempty"`
	Ask           resource.Ask
	FirstBoot     *FirstBoot `json:",omitempty"` // nil: the rebuild keeps it
}

// FirstBoot is what a guest reads from its config drive when it boots for the first time.
type FirstBoot struct {
	KeyName   string
	PublicKey string `json:",omitempty"` // of the key pair, as it was when the server was created or rebuilt
	UserData  string `json:",omitempty"` // in base64
	Hostname  string `json:",omitempty"` // of the guest; empty: it follows from the name of the server
	// the administrator's password of the guest, until the guest is built; empty: none
	AdminPass string `json:",omitempty"`
}

// AccessIPs are the addresses at which the user reaches the server, in the user's words. They are shown only.
type AccessIPs struct {
	AccessIPv4 string `json:",omitempty"`
	AccessIPv6 string `json:",omitempty"`
}

// DecodeUserData decodes user data: base64, with or without line breaks.
func DecodeUserData(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
}

// SourceImage returns the image that the server was created from, as it was then. If it was not looked up, only its id
// is set.
func (s Server) SourceImage() flavor.Image {
	if s.ImageSnapshot == nil {
		return flavor.Image{ID: s.Image}
	}
	return *s.ImageSnapshot
}

// HasDisk reports whether the server has a root disk of its own.
func (s Server) HasDisk() bool { return s.Image != "" || s.Flavor.DiskGB > 0 }

// Phase returns the phase of the move in progress, or an empty string.
func (s Server) Phase() MovePhase {
	if s.Move == nil {
		return ""
	}
	return s.Move.Phase
}

// Stage returns the state of the server, or the phase of its move while it moves. A phase with the meaning of a state
// has the same text.
func (s Server) Stage() string {
	if s.Move != nil {
		return string(s.Move.Phase)
	}
	return string(s.State)
}

// Latest returns the number of the last report about the server from an agent instance of the host; 0 if there is none.
func (s Server) Latest(host, instance string) int64 {
	for _, v := range s.LastReports {
		if v.Host == host && v.Instance == instance {
			return v.Number
		}
	}
	return 0
}

// NetworkRequest is one entry of `networks` of a request to create a server: a port, or a network in which Schedule
// creates a port.
type NetworkRequest struct {
	Port    string // UUID; empty: a port is created
	Network string // UUID
	FixedIP string // of the port to create; empty: any
	Tag     string // device tag of the guest's interface
}

// SecurityGroup is a security group of the network service. Without an id it is the one that the network service gives
// to a port for which none is requested.
type SecurityGroup struct{ ID, Name string }

// Port is a port of a server as compute has last read it.
type Port struct {
	ID, Network, NetworkName string
	MAC, VNIC                string
	Tag                      string
	FixedIPs                 []FixedIP
	Created                  bool                   // by compute, which deletes it with the server
	Groups                   []resource.Group       // what it requests from Placement; the suffix is the id of the group
	SameSubtree              []string               // suffixes
	Allocation               map[string]provider.ID // the provider that was chosen for each group; nil: none
	Host                     string                 // the host that it is bound to; empty: none, or not known
	VIF                      string                 // binding:vif_type on Host, or on the last one
	Bridge                   string                 // that the network service names for its interface; empty: none
	Device                   string                 // address of the device that it is bound with; empty: none
	Revision                 int                    // of the port as it was read
	VLAN                     int                    // tag that the device or the bridge adds; 0: none; or Untagged
	DNSName                  string                 // dns_name that compute gives to it; empty: it has one of its user
}

// Guarantee is what a port requests from Placement since a revision of the port.
type Guarantee struct {
	Revision int
	Amounts  resource.Amounts
}

// Untagged is the VLAN of a port whose bridge adds no tag, and drops frames with a tag.
const Untagged = -1

// FixedIP is an address of a port.
type FixedIP struct{ Subnet, Address string }

// ShelvedImage is the image that gets the disk of a server that is shelved, and from which the server is unshelved; or
// the image that gets a copy of the disk.
type ShelvedImage struct {
	ID     string // chosen before the image is created, so that a repeated request finds it
	Format string // of its data, which the driver of the host makes
	Bytes  int64  // size of its data
	SHA512 string // of its data, as the agent has uploaded it; empty: it is not uploaded yet

	Copy *ImageCopy // the image gets a copy, and the server keeps its disk; nil: the server is shelved
}

// ImageCopy describes an image that gets a copy of the disk of a server: a snapshot or a backup.
type ImageCopy struct {
	Name       string
	Properties map[string]string // that the user has requested
	BackupType string            // of a backup, such as daily; empty: the image is a snapshot
	Rotation   int               // of a backup: how many of this type the server keeps
}

// PortOutcome is the result of a change of a port.
type PortOutcome struct {
	ID      string // of the request
	Port    string // that is attached; empty if it was to be detached, or if it is not attached
	Refused string // why the change was not made; empty: it was
}

// QueuedPortChange is a change of a port that waits until the one before it has ended.
type QueuedPortChange struct {
	ID      string         // of the request
	Request NetworkRequest // the port or the network to attach
	Detach  string         // the port to detach; empty: Request is attached
}

// PortChange is a port that is being attached or detached.
type PortChange struct {
	ID      string         // of the request
	Request NetworkRequest // the port or the network to attach
	Detach  string         // the port to detach; empty: Request is attached

	Device  *pci.Request // of the port; nil: it needs none, or it is not claimed yet
	Port    *Port        // with Device: as it was claimed or detached
	Refused string       // why the claim of a port with a device is undone; empty: it is not
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
	Ports            []Port // of the source of a move: with their allocation there
	Cells            []numa.Placed
	Reported         bool // the agent has reported the guest
	Gone             bool // nothing of the guest is left on the host
}

// Move is a move in progress. It is a state machine of its own: its event and its phase yield the next move and the
// effects on the server.
//
// The destination is in the server's own fields, because the server's own consumer holds it. So events carry what a
// transition needs of them.
type Move struct {
	Kind            Kind
	Phase           MovePhase
	To              string // the only permitted host; empty: any
	SameHostAllowed bool   // the source host is permitted as destination
	// holds the source: the migration's id, or an earlier one that the agent may know the guest by
	Consumer        string
	From            Residence // the source. Its consumer is the server until AllocationsMoved
	StopSource      bool      // the guest at From must be stopped
	KeepStopped     bool      // the guest is not started at the destination, whatever it was at From
	SourceStopped   bool      // the guest at From has stopped
	RevertRequested bool      // a user reverts the move
	Failed          string    // why the move was given up, or empty
	SourceLost      string    // why the guest at From no longer exists, or empty
	LiveRequests
	// how often Placement has refused to restore the server's allocations
	Refusals int `json:",omitempty"`
}

// LiveRequests is what operators have requested of a live migration in progress.
type LiveRequests struct {
	Aborted bool `json:",omitempty"` // it must end at its source, unless it is complete before
	Forced  bool `json:",omitempty"` // it must be completed, even if its guest pauses for that
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

// Kinds lists all kinds of moves.
func Kinds() []Kind { return []Kind{Resizing, Migrating, LiveMigration, Evacuating} }

// MovePhase is the state of a move.
type MovePhase string
