package store

import (
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

// serverRecord is the record of a server, the column `record` of compute_servers. The parts are one JSON object.
type serverRecord struct {
	Version int `json:"version"`
	serverIdentity
	serverRequest
	serverPlace
	serverProgress
	serverTimes
}

// serverIdentity is the name, the owner and the description of the server.
type serverIdentity struct {
	ID            string       `json:"id,omitzero" v1:"ID"`
	Name          string       `json:"name,omitzero" v1:"Name"`
	Description   string       `json:"description,omitzero" v1:"Description"`
	Project       string       `json:"project_id,omitzero" v1:"Project"`
	User          string       `json:"user_id,omitzero" v1:"User"`
	Image         string       `json:"image_id,omitzero" v1:"Image"`
	ImageSnapshot *imageRecord `json:"image_snapshot,omitzero" v1:"Frozen"`
	firstBootRecord
	Zone     string            `json:"availability_zone,omitzero" v1:"Zone"`
	Metadata map[string]string `json:"metadata,omitzero" v1:"Metadata"`
	Tags     []string          `json:"tags,omitzero" v1:"Tags"`
}

// firstBootRecord is what the guest reads from its config drive. Version 5 adds all but the name.
type firstBootRecord struct {
	KeyName   string `json:"key_name,omitzero" v1:"KeyName"`
	PublicKey string `json:"public_key,omitzero"`
	UserData  string `json:"user_data,omitzero"`
}

// serverRequest is what the server needs.
type serverRequest struct {
	Flavor      flavorRecord      `json:"flavor,omitzero" v1:"Flavor"`
	Ask         askRecord         `json:"resource_request,omitzero" v1:"Ask"`
	PCIRequests []requestRecord   `json:"pci_requests,omitzero" v1:"Requests"`
	NUMACells   []guestCellRecord `json:"numa_cells,omitzero" v1:"Topology"`
	Networks    []networkRecord   `json:"requested_networks,omitzero"`
	MinCount    int               `json:"min_count,omitzero" v1:"Least"`
	Power       storedPower       `json:"desired_power,omitzero" v1:"Power"`
}

// serverPlace is where the server is or may be, and what it has there.
type serverPlace struct {
	Host             string            `json:"host,omitzero" v1:"Host"`
	Reported         bool              `json:"reported,omitzero" v1:"Heard"`
	PreviousConsumer string            `json:"previous_consumer,omitzero" v1:"Was"`
	Round            int               `json:"scheduling_round,omitzero" v1:"Round"`
	ClaimAttempt     int               `json:"claim_attempt,omitzero" v1:"Try"`
	Choices          []choiceRecord    `json:"choices,omitzero" v1:"Choices"`
	ExcludedHosts    map[string]string `json:"excluded_hosts,omitzero" v1:"Excluded"`
	FilterFailures   []failureRecord   `json:"filter_failures,omitzero" v1:"Falls"`
	MinCountReached  bool              `json:"min_count_reached,omitzero" v1:"Together"`
	Devices          []pickedRecord    `json:"pci_devices,omitzero" v1:"Devices"`
	CellPlaces       []cellPlaceRecord `json:"numa_placement,omitzero" v1:"Cells"`
	Ports            []portRecord      `json:"ports,omitzero"`
	Leftovers        []residenceRecord `json:"leftovers,omitzero" v1:"Left"`
	LastReports      []reportRecord    `json:"last_reports,omitzero" v1:"Voices"`
}

// serverProgress is the actions in progress on the server.
type serverProgress struct {
	State         storedState         `json:"state,omitzero" v1:"State"`
	Task          storedTask          `json:"task_state,omitzero" v1:"Doing"`
	Stopped       bool                `json:"stopped,omitzero" v1:"Stopped"`
	Shelved       bool                `json:"shelved,omitzero" v1:"Shelf"`
	ShelvedImage  *shelvedImageRecord `json:"shelved_image,omitzero"`
	UnusedImages  []string            `json:"unused_images,omitzero"`
	RebuildCount  int                 `json:"rebuild_count,omitzero" v1:"Builds"`
	BeforeRebuild *rebuildRecord      `json:"before_rebuild,omitzero" v1:"Undo"`
	PortChange    *portChangeRecord   `json:"port_change,omitzero"`
	PortsRefused  string              `json:"ports_refused,omitzero"` // since version 5
	DeletedPorts  []string            `json:"deleted_ports,omitzero"` // since version 7

	// since version 7
	PortQueue    []queuedPortRecord  `json:"port_queue,omitzero"`
	PortOutcomes []portOutcomeRecord `json:"port_outcomes,omitzero"`

	Move            *moveRecord      `json:"move,omitzero" v1:"Move"`
	Migration       *migrationRecord `json:"migration,omitzero" v1:"Migration"`
	LastAction      string           `json:"last_action_id,omitzero" v1:"Asked"`
	LastActionFault *faultRecord     `json:"last_action_fault,omitzero" v1:"Refusal"`
	Fault           *faultRecord     `json:"fault,omitzero" v1:"Fault"`
	History         []historyRecord  `json:"history,omitzero" v1:"Trail"`
}

// serverTimes is when the server changed, and how often.
type serverTimes struct {
	Created         time.Time `json:"created_at,omitzero" v1:"Created"`
	Updated         time.Time `json:"updated_at,omitzero" v1:"Updated"`
	Launched        time.Time `json:"launched_at,omitzero" v1:"Launched"`
	Deleted         time.Time `json:"deleted_at,omitzero" v1:"Ended"`
	DeleteRequested time.Time `json:"delete_requested_at,omitzero" v1:"Requested"`
	Revision        int64     `json:"revision,omitzero" v1:"Revision"`
}

// residenceRecord is what one consumer has on one host.
type residenceRecord struct {
	Consumer         string            `json:"consumer,omitzero" v1:"Consumer"`
	PreviousConsumer string            `json:"previous_consumer,omitzero" v1:"Was"`
	Host             string            `json:"host,omitzero" v1:"Host"`
	Flavor           flavorRecord      `json:"flavor,omitzero" v1:"Flavor"`
	Ask              askRecord         `json:"resource_request,omitzero" v1:"Ask"`
	PCIRequests      []requestRecord   `json:"pci_requests,omitzero" v1:"Requests"`
	Choice           *choiceRecord     `json:"choice,omitzero" v1:"Choice"`
	Devices          []pickedRecord    `json:"pci_devices,omitzero" v1:"Devices"`
	NUMACells        []guestCellRecord `json:"numa_cells,omitzero" v1:"Topology"`
	CellPlaces       []cellPlaceRecord `json:"numa_placement,omitzero" v1:"Cells"`
	Ports            []portRecord      `json:"ports,omitzero"`
	Reported         bool              `json:"reported,omitzero" v1:"Heard"`
	Gone             bool              `json:"gone,omitzero" v1:"Gone"`
}

// moveRecord is a move in progress. Its phase is the field state of the server. AllocationsMoved follows from the
// phase; it is written for programs that do not derive it.
type moveRecord struct {
	Kind             storedKind      `json:"kind,omitzero" v1:"Kind"`
	TargetHost       string          `json:"target_host,omitzero" v1:"To"`
	SameHostAllowed  bool            `json:"same_host_allowed,omitzero" v1:"Stay"`
	Consumer         string          `json:"consumer,omitzero" v1:"As"`
	Source           residenceRecord `json:"source,omitzero" v1:"From"`
	AllocationsMoved bool            `json:"allocations_moved,omitzero" v1:"Keyed"`
	StopSource       bool            `json:"stop_source,omitzero" v1:"Halted"`
	SourceStopped    bool            `json:"source_stopped,omitzero" v1:"Down"`
	Reverting        bool            `json:"reverting,omitzero" v1:"Back"`
	Failure          string          `json:"failure,omitzero" v1:"Failed"`
	SourceLost       string          `json:"source_lost,omitzero" v1:"Lost"`
	Refusals         int             `json:"refusals,omitzero" v1:"Denied"`
}

type migrationRecord struct {
	ID              string     `json:"id,omitzero" v1:"ID"`
	Kind            storedKind `json:"kind,omitzero" v1:"Kind"`
	Status          string     `json:"status,omitzero" v1:"Status"`
	SourceHost      string     `json:"source_host,omitzero" v1:"From"`
	DestinationHost string     `json:"destination_host,omitzero" v1:"To"`
	OldFlavor       string     `json:"old_flavor_id,omitzero" v1:"OldFlavor"`
	NewFlavor       string     `json:"new_flavor_id,omitzero" v1:"NewFlavor"`
	Created         time.Time  `json:"created_at,omitzero" v1:"Begun"`
	Updated         time.Time  `json:"updated_at,omitzero" v1:"Updated"`
}

// failureRecord is which hosts a filter has refused for one reason.
type failureRecord struct {
	Filter  schedule.Filter `json:"filter,omitzero" v1:"Step"` // only shown, so there is no table of its values
	Reason  string          `json:"reason,omitzero" v1:"Reason"`
	Count   int             `json:"host_count,omitzero" v1:"Count"`
	Hosts   []string        `json:"hosts,omitzero" v1:"Hosts"`
	Nearest string          `json:"nearest_miss,omitzero" v1:"Nearest"`
}

// reportRecord is the last report of an agent about the server.
type reportRecord struct {
	Host     string `json:"host,omitzero" v1:"Host"`
	Instance string `json:"agent_instance,omitzero" v1:"Instance"`
	Number   int64  `json:"number,omitzero" v1:"Number"`
}

// shelvedImageRecord is the image that has, or gets, the disk of the server.
type shelvedImageRecord struct {
	ID     string `json:"id,omitzero"`
	Format string `json:"disk_format,omitzero"`
	Bytes  int64  `json:"size,omitzero"`
	SHA512 string `json:"sha512,omitzero"`
}

// rebuildRecord is what the server was before a rebuild that is not done.
type rebuildRecord struct {
	Name          string       `json:"name,omitzero" v1:"Name"`
	Image         string       `json:"image_id,omitzero" v1:"Image"`
	ImageSnapshot *imageRecord `json:"image_snapshot,omitzero" v1:"Frozen"`
	Ask           askRecord    `json:"resource_request,omitzero" v1:"Ask"`

	FirstBoot *firstBootRecord `json:"first_boot,omitzero"`
}

type faultRecord struct {
	Code    int       `json:"code,omitzero" v1:"Code"`
	Message string    `json:"message,omitzero" v1:"Message"`
	Details string    `json:"details,omitzero" v1:"Details"`
	Created time.Time `json:"created_at,omitzero" v1:"Created"`
}

type historyRecord struct {
	At    time.Time `json:"at,omitzero" v1:"At"`
	Text  string    `json:"text,omitzero" v1:"Text"`
	Times int       `json:"count,omitzero" v1:"Times"`
}

// encodeServer returns the record of a server.
func encodeServer(s lifecycle.Server) ([]byte, error) {
	return encodeRecord("server "+s.ID, toServer(s))
}

// decodeServer reads the record of the server with this id. The record of another server, or of none, is refused.
func decodeServer(id string, text []byte) (lifecycle.Server, error) {
	var r serverRecord
	if err := decodeRecord("server "+id, text, &r); err != nil {
		return lifecycle.Server{}, err
	}
	if r.ID != id {
		return lifecycle.Server{}, foreignRecord("server "+id, r.ID)
	}
	return fromServer(r), nil
}

// toServer and the functions like it list all fields of a record in their order: a field that is forgotten does not
// compile.
func toServer(s lifecycle.Server) serverRecord {
	return serverRecord{
		Version: recordVersion,
		serverIdentity: serverIdentity{s.ID, s.Name, s.Description, s.Project, s.User, s.Image,
			optional(s.ImageSnapshot, toImage), firstBootRecord(s.FirstBoot), s.Zone, s.Metadata, s.Tags},
		serverRequest: serverRequest{flavorRecord(s.Flavor), toAsk(s.Ask), each(s.Requests, toRequest),
			each(s.Topology, toGuestCell), each(s.Networks, toNetwork), s.MinCount, storedPower(s.Power)},
		serverPlace: serverPlace{s.Host, s.Reported, s.PreviousConsumer, s.Round, s.Try, each(s.Choices, toChoice),
			s.FailedHosts,
			each(s.FilterFailures, toFailure), s.MinCountReached, each(s.Devices, toPicked), each(s.Cells, toCellPlace),
			each(s.Ports, toPort), each(s.Leftovers, toResidence),
			each(s.LastReports, func(v lifecycle.LastReport) reportRecord { return reportRecord(v) })},
		serverProgress: serverProgress{storedState(s.Stage()), storedTask(s.Task), s.Stopped, s.Shelved,
			optional(s.ShelvedImage, func(i lifecycle.ShelvedImage) shelvedImageRecord { return shelvedImageRecord(i) }),
			s.UnusedImages, s.Builds,
			optional(s.PreRebuild, toRebuild), optional(s.PortChange, toPortChange), s.PortsRefused,
			s.DeletedPorts, each(s.PortQueue, toQueuedPort),
			each(s.PortOutcomes, func(o lifecycle.PortOutcome) portOutcomeRecord { return portOutcomeRecord(o) }),
			optional(s.Move, toMove),
			optional(s.Migration, toMigration),
			s.LastAction,
			optional(s.Refusal, toFault), optional(s.Fault, toFault),
			each(s.History, func(m lifecycle.HistoryEntry) historyRecord { return historyRecord(m) })},
		serverTimes: serverTimes{s.Created, s.Updated, s.Launched, s.Ended, s.Requested, s.Revision},
	}
}

func fromServer(r serverRecord) lifecycle.Server {
	state := lifecycle.State(r.State)
	if r.Move != nil && r.State != "" {
		state = lifecycle.Moving // fromMove has read the phase
	}
	return lifecycle.Server{
		ID: r.ID, Name: r.Name, Description: r.Description, Project: r.Project, User: r.User, Image: r.Image,
		ImageSnapshot: optional(r.ImageSnapshot, fromImage), FirstBoot: lifecycle.FirstBoot(r.firstBootRecord), Zone: r.Zone,
		Metadata: r.Metadata, Tags: r.Tags,

		Flavor: flavor.Flavor(r.Flavor), Ask: fromAsk(r.Ask), Requests: each(r.PCIRequests, fromRequest),
		Topology: each(r.NUMACells, fromGuestCell), Networks: each(r.Networks, fromNetwork), MinCount: r.MinCount,
		Power: lifecycle.Power(r.Power),

		Host: r.Host, Reported: r.Reported, PreviousConsumer: r.PreviousConsumer, Round: r.Round, Try: r.ClaimAttempt,
		Choices: each(r.Choices, fromChoice), FailedHosts: r.ExcludedHosts,
		FilterFailures:  each(r.FilterFailures, fromFailure),
		MinCountReached: r.MinCountReached, Devices: each(r.Devices, fromPicked),
		Cells:       each(r.CellPlaces, fromCellPlace),
		Ports:       each(r.Ports, fromPort),
		Leftovers:   each(r.Leftovers, fromResidence),
		LastReports: each(r.LastReports, func(v reportRecord) lifecycle.LastReport { return lifecycle.LastReport(v) }),

		State: state, Task: lifecycle.Task(r.Task), Stopped: r.Stopped, Shelved: r.Shelved,
		ShelvedImage: optional(r.ShelvedImage,
			func(i shelvedImageRecord) lifecycle.ShelvedImage { return lifecycle.ShelvedImage(i) }),
		UnusedImages: r.UnusedImages, Builds: r.RebuildCount, PreRebuild: optional(r.BeforeRebuild, fromRebuild),
		PortChange: optional(r.PortChange, fromPortChange), PortsRefused: r.PortsRefused,
		DeletedPorts: r.DeletedPorts, PortQueue: each(r.PortQueue, fromQueuedPort),
		PortOutcomes: each(r.PortOutcomes,
			func(o portOutcomeRecord) lifecycle.PortOutcome { return lifecycle.PortOutcome(o) }),
		Move: fromMove(r.Move, r.State), Migration: optional(r.Migration, fromMigration),
		LastAction: r.LastAction,
		Refusal:    optional(r.LastActionFault, fromFault), Fault: optional(r.Fault, fromFault),
		History: each(r.History, func(h historyRecord) lifecycle.HistoryEntry { return lifecycle.HistoryEntry(h) }),

		Created: r.Created, Updated: r.Updated, Launched: r.Launched, Ended: r.Deleted, Requested: r.DeleteRequested,
		Revision: r.Revision,
	}
}

func toResidence(s lifecycle.Residence) residenceRecord {
	return residenceRecord{s.Consumer, s.PreviousConsumer, s.Host, flavorRecord(s.Flavor), toAsk(s.Ask),
		each(s.Requests, toRequest),
		optional(s.Choice, toChoice), each(s.Devices, toPicked), each(s.Topology, toGuestCell),
		each(s.Cells, toCellPlace), each(s.Ports, toPort), s.Reported, s.Gone}
}

func fromResidence(r residenceRecord) lifecycle.Residence {
	return lifecycle.Residence{
		Consumer: r.Consumer, PreviousConsumer: r.PreviousConsumer, Host: r.Host, Flavor: flavor.Flavor(r.Flavor),
		Ask: fromAsk(r.Ask), Requests: each(r.PCIRequests, fromRequest), Choice: optional(r.Choice, fromChoice),
		Devices: each(r.Devices, fromPicked), Topology: each(r.NUMACells, fromGuestCell),
		Cells: each(r.CellPlaces, fromCellPlace), Ports: each(r.Ports, fromPort), Reported: r.Reported, Gone: r.Gone,
	}
}

func toMove(m lifecycle.Move) moveRecord {
	return moveRecord{storedKind(m.Kind), m.To, m.SameHostAllowed, m.Consumer, toResidence(m.From),
		m.AllocationsMoved(), m.StopSource, m.SourceStopped, m.RevertRequested,
		m.Failed, m.SourceLost, m.Refusals}
}

// fromMove reads a move, or returns nil. Its phase is the state of the server's record.
func fromMove(r *moveRecord, phase storedState) *lifecycle.Move {
	if r == nil {
		return nil
	}
	return &lifecycle.Move{
		Kind: lifecycle.Kind(r.Kind), Phase: lifecycle.MovePhase(phase), To: r.TargetHost,
		SameHostAllowed: r.SameHostAllowed, Consumer: r.Consumer,
		From: fromResidence(r.Source), StopSource: r.StopSource, SourceStopped: r.SourceStopped,
		RevertRequested: r.Reverting, Failed: r.Failure,
		SourceLost: r.SourceLost, Refusals: r.Refusals,
	}
}

func toMigration(m lifecycle.Migration) migrationRecord {
	return migrationRecord{m.ID, storedKind(m.Kind), m.Status, m.From, m.To, m.OldFlavor, m.NewFlavor, m.Begun,
		m.Updated}
}

func fromMigration(r migrationRecord) lifecycle.Migration {
	return lifecycle.Migration{
		ID: r.ID, Kind: lifecycle.Kind(r.Kind), Status: r.Status, From: r.SourceHost, To: r.DestinationHost,
		OldFlavor: r.OldFlavor, NewFlavor: r.NewFlavor, Begun: r.Created, Updated: r.Updated,
	}
}

func toFailure(f schedule.FilterFailure) failureRecord {
	return failureRecord{f.Filter, f.Reason, f.Count, f.Hosts, f.Nearest}
}

func fromFailure(r failureRecord) schedule.FilterFailure {
	return schedule.FilterFailure{Filter: r.Filter, Reason: r.Reason, Count: r.Count, Hosts: r.Hosts, Nearest: r.Nearest}
}

func toRebuild(u lifecycle.PreRebuild) rebuildRecord {
	return rebuildRecord{u.Name, u.Image, optional(u.ImageSnapshot, toImage), toAsk(u.Ask),
		optional(u.FirstBoot, toFirstBoot)}
}

func fromRebuild(r rebuildRecord) lifecycle.PreRebuild {
	return lifecycle.PreRebuild{
		Name: r.Name, Image: r.Image, ImageSnapshot: optional(r.ImageSnapshot, fromImage), Ask: fromAsk(r.Ask),
		FirstBoot: optional(r.FirstBoot, fromFirstBoot),
	}
}

func toFirstBoot(b lifecycle.FirstBoot) firstBootRecord   { return firstBootRecord(b) }
func fromFirstBoot(r firstBootRecord) lifecycle.FirstBoot { return lifecycle.FirstBoot(r) }

func toFault(f lifecycle.Fault) faultRecord   { return faultRecord(f) }
func fromFault(r faultRecord) lifecycle.Fault { return lifecycle.Fault(r) }
