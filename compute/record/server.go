package record

import (
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// serverRecord is the record of a server, the column `record` of compute_servers. The parts are one JSON object.
type serverRecord struct {
	serverIdentity
	serverRequest
	serverPlace
	serverProgress
	serverTimes
}

// serverIdentity is the name, the owner and the description of the server.
type serverIdentity struct {
	ID            string       `json:"id,omitzero"`
	Name          string       `json:"name,omitzero"`
	Description   string       `json:"description,omitzero"`
	Project       string       `json:"project_id,omitzero"`
	User          string       `json:"user_id,omitzero"`
	CreateRequest string       `json:"create_request_id,omitzero"`
	Image         string       `json:"image_id,omitzero"`
	ImageSnapshot *imageRecord `json:"image_snapshot,omitzero"`
	firstBootRecord
	Zone     string            `json:"requested_availability_zone,omitzero"`
	HostZone string            `json:"availability_zone,omitzero"`
	Metadata map[string]string `json:"metadata,omitzero"`
	Tags     []string          `json:"tags,omitzero"`
	Lock     *lockRecord       `json:"lock,omitzero"`
	accessRecord
	AutoDisk    bool `json:"auto_disk_config,omitzero"`
	ConfigDrive bool `json:"config_drive,omitzero"`
}

// lockRecord keeps users from changing the server.
type lockRecord struct {
	ByAdmin bool   `json:"by_admin,omitzero"`
	Reason  string `json:"reason,omitzero"`
}

// accessRecord is where the user reaches the server.
type accessRecord struct {
	AccessIPv4 string `json:"access_ip_v4,omitzero"`
	AccessIPv6 string `json:"access_ip_v6,omitzero"`
}

// firstBootRecord is what the guest reads from its config drive.
type firstBootRecord struct {
	KeyName   string `json:"key_name,omitzero"`
	PublicKey string `json:"public_key,omitzero"`
	UserData  string `json:"user_data,omitzero"`
	Hostname  string `json:"hostname,omitzero"`
	AdminPass string `json:"admin_password,omitzero"`
}

// serverRequest is what the server needs.
type serverRequest struct {
	Flavor      flavorRecord      `json:"flavor,omitzero"`
	Ask         askRecord         `json:"resource_request,omitzero"`
	PCIRequests []requestRecord   `json:"pci_requests,omitzero"`
	Amounts     resource.Amounts  `json:"requested_amounts,omitzero"`
	NUMACells   []guestCellRecord `json:"numa_cells,omitzero"`

	PortAmounts map[string]resource.Amounts `json:"requested_port_amounts,omitzero"`
	Guarantees  map[string]guaranteeRecord  `json:"port_guarantees,omitzero"`
	Reserved    map[string]resource.Amounts `json:"reserved_guarantees,omitzero"`

	Networks []networkRecord       `json:"requested_networks,omitzero"`
	Groups   []securityGroupRecord `json:"security_groups,omitzero"`
	Group    string                `json:"server_group_id,omitzero"`
	Target   string                `json:"target_host,omitzero"`
	Same     []string              `json:"same_host,omitzero"`
	Other    []string              `json:"different_host,omitzero"`
	MinCount int                   `json:"min_count,omitzero"`
	Power    lifecycle.Power       `json:"desired_power,omitzero"`
	Rescue   string                `json:"rescue_image,omitzero"`
}

// guaranteeRecord is what a port requests since a revision.
type guaranteeRecord struct {
	Revision int              `json:"revision,omitzero"`
	Amounts  resource.Amounts `json:"amounts,omitzero"`
}

// securityGroupRecord is a security group of the ports that are created with the server.
type securityGroupRecord struct {
	ID   string `json:"id,omitzero"`
	Name string `json:"name,omitzero"`
}

// serverPlace is where the server is or may be, and what it has there.
type serverPlace struct {
	Host             string            `json:"host,omitzero"`
	Reported         bool              `json:"reported,omitzero"`
	PreviousConsumer string            `json:"previous_consumer,omitzero"`
	Round            int               `json:"scheduling_round,omitzero"`
	ClaimAttempt     int               `json:"claim_attempt,omitzero"`
	Choices          []choiceRecord    `json:"choices,omitzero"`
	ExcludedHosts    map[string]string `json:"excluded_hosts,omitzero"`
	FilterFailures   []failureRecord   `json:"filter_failures,omitzero"`
	Search           *searchRecord     `json:"host_search,omitzero"`
	MinCountReached  bool              `json:"min_count_reached,omitzero"`
	Devices          []pickedRecord    `json:"pci_devices,omitzero"`
	CellPlaces       []cellPlaceRecord `json:"numa_placement,omitzero"`
	Ports            []portRecord      `json:"ports,omitzero"`
	Leftovers        []residenceRecord `json:"leftovers,omitzero"`
	LastReports      []reportRecord    `json:"last_reports,omitzero"`
}

// serverProgress is the actions in progress on the server.
type serverProgress struct {
	State         string              `json:"state,omitzero"`
	Task          lifecycle.Task      `json:"task_state,omitzero"`
	Actual        lifecycle.Power     `json:"power,omitzero"`
	Rescued       string              `json:"rescued_from,omitzero"`
	Shelved       bool                `json:"shelved,omitzero"`
	ShelvedImage  *shelvedImageRecord `json:"shelved_image,omitzero"`
	UnusedImages  []string            `json:"unused_images,omitzero"`
	RebuildCount  int                 `json:"rebuild_count,omitzero"`
	BeforeRebuild *rebuildRecord      `json:"before_rebuild,omitzero"`
	PortChange    *portChangeRecord   `json:"port_change,omitzero"`
	PortsRefused  string              `json:"ports_refused,omitzero"`
	DeletedPorts  []string            `json:"deleted_ports,omitzero"`

	PortQueue    []queuedPortRecord  `json:"port_queue,omitzero"`
	PortOutcomes []portOutcomeRecord `json:"port_outcomes,omitzero"`

	Move            *moveRecord      `json:"move,omitzero"`
	Migration       *migrationRecord `json:"migration,omitzero"`
	LastAction      string           `json:"last_action_id,omitzero"`
	LastActionFault *faultRecord     `json:"last_action_fault,omitzero"`
	Fault           *faultRecord     `json:"fault,omitzero"`
	History         []historyRecord  `json:"history,omitzero"`
}

// serverTimes is when the server changed, and how often.
type serverTimes struct {
	Created         time.Time `json:"created_at,omitzero"`
	Updated         time.Time `json:"updated_at,omitzero"`
	Launched        time.Time `json:"launched_at,omitzero"`
	Deleted         time.Time `json:"deleted_at,omitzero"`
	DeleteRequested time.Time `json:"delete_requested_at,omitzero"`
	SoftDeleted     time.Time `json:"soft_deleted_at,omitzero"`
	ShelvedAt       time.Time `json:"shelved_at,omitzero"`
	Revision        int64     `json:"revision,omitzero"`
}

// residenceRecord is what one consumer has on one host.
type residenceRecord struct {
	Consumer         string            `json:"consumer,omitzero"`
	PreviousConsumer string            `json:"previous_consumer,omitzero"`
	Host             string            `json:"host,omitzero"`
	Flavor           flavorRecord      `json:"flavor,omitzero"`
	Ask              askRecord         `json:"resource_request,omitzero"`
	PCIRequests      []requestRecord   `json:"pci_requests,omitzero"`
	Choice           *choiceRecord     `json:"choice,omitzero"`
	Devices          []pickedRecord    `json:"pci_devices,omitzero"`
	NUMACells        []guestCellRecord `json:"numa_cells,omitzero"`
	CellPlaces       []cellPlaceRecord `json:"numa_placement,omitzero"`
	Ports            []portRecord      `json:"ports,omitzero"`
	Reported         bool              `json:"reported,omitzero"`
	Gone             bool              `json:"gone,omitzero"`
}

// moveRecord is a move in progress. Its phase is the field state of the server.
type moveRecord struct {
	Kind            lifecycle.Kind  `json:"kind,omitzero"`
	TargetHost      string          `json:"target_host,omitzero"`
	SameHostAllowed bool            `json:"same_host_allowed,omitzero"`
	Consumer        string          `json:"consumer,omitzero"`
	Source          residenceRecord `json:"source,omitzero"`
	StopSource      bool            `json:"stop_source,omitzero"`
	KeepStopped     bool            `json:"keep_stopped,omitzero"`
	SourceStopped   bool            `json:"source_stopped,omitzero"`
	Reverting       bool            `json:"reverting,omitzero"`
	Failure         string          `json:"failure,omitzero"`
	SourceLost      string          `json:"source_lost,omitzero"`
	Refusals        int             `json:"refusals,omitzero"`
	Aborted         bool            `json:"aborted,omitzero"`
	Forced          bool            `json:"forced,omitzero"`
}

type migrationRecord struct {
	ID              string         `json:"id,omitzero"`
	Kind            lifecycle.Kind `json:"kind,omitzero"`
	Status          string         `json:"status,omitzero"`
	SourceHost      string         `json:"source_host,omitzero"`
	DestinationHost string         `json:"destination_host,omitzero"`
	OldFlavor       string         `json:"old_flavor_id,omitzero"`
	NewFlavor       string         `json:"new_flavor_id,omitzero"`
	Created         time.Time      `json:"created_at,omitzero"`
	Updated         time.Time      `json:"updated_at,omitzero"`
	User            string         `json:"user_id,omitzero"`
	Project         string         `json:"project_id,omitzero"`
}

// failureRecord is which hosts a filter has refused for one reason.
type failureRecord struct {
	Filter  schedule.Filter `json:"filter,omitzero"`
	Reason  string          `json:"reason,omitzero"`
	Count   int             `json:"host_count,omitzero"`
	Hosts   []string        `json:"hosts,omitzero"`
	Nearest string          `json:"nearest_miss,omitzero"`
}

// searchRecord is the last search for a host.
type searchRecord struct {
	At      time.Time      `json:"at,omitzero"`
	Funnel  []funnelRecord `json:"funnel,omitzero"`
	Nearest []missRecord   `json:"nearest,omitzero"`
}

type funnelRecord struct {
	Clause  string   `json:"clause,omitzero"`
	Left    int      `json:"left,omitzero"`
	Removed []string `json:"removed_hosts,omitzero"`
}

type missRecord struct {
	Host     string          `json:"host,omitzero"`
	Deficits []deficitRecord `json:"deficits,omitzero"`
}

type deficitRecord struct {
	Class resource.Class `json:"resource_class,omitzero"`
	Cause string         `json:"cause,omitzero"`
	Asks  int            `json:"asks,omitzero"`
	Free  int            `json:"free,omitzero"`
	Of    int            `json:"of,omitzero"`
	Text  string         `json:"text,omitzero"`
}

// reportRecord is the last report of an agent about the server.
type reportRecord struct {
	Host     string `json:"host,omitzero"`
	Instance string `json:"agent_instance,omitzero"`
	Number   int64  `json:"number,omitzero"`
}

// shelvedImageRecord is the image that has, or gets, the disk of the server.
type shelvedImageRecord struct {
	ID     string `json:"id,omitzero"`
	Format string `json:"disk_format,omitzero"`
	Bytes  int64  `json:"size,omitzero"`
	SHA512 string `json:"sha512,omitzero"`

	Copy *imageCopyRecord `json:"copy,omitzero"`
}

// imageCopyRecord is the snapshot or the backup that the image is.
type imageCopyRecord struct {
	Name       string            `json:"name,omitzero"`
	Properties map[string]string `json:"properties,omitzero"`
	BackupType string            `json:"backup_type,omitzero"`
	Rotation   int               `json:"rotation,omitzero"`
}

// rebuildRecord is what the server was before a rebuild that is not done.
type rebuildRecord struct {
	Name          string       `json:"name,omitzero"`
	Image         string       `json:"image_id,omitzero"`
	ImageSnapshot *imageRecord `json:"image_snapshot,omitzero"`
	Ask           askRecord    `json:"resource_request,omitzero"`

	FirstBoot *firstBootRecord `json:"first_boot,omitzero"`
}

type faultRecord struct {
	Code    int       `json:"code,omitzero"`
	Message string    `json:"message,omitzero"`
	Details string    `json:"details,omitzero"`
	Created time.Time `json:"created_at,omitzero"`
}

type historyRecord struct {
	At      time.Time `json:"at,omitzero"`
	Text    string    `json:"text,omitzero"`
	Times   int       `json:"count,omitzero"`
	Action  string    `json:"action,omitzero"`
	Request string    `json:"request_id,omitzero"`
	User    string    `json:"user_id,omitzero"`
	Project string    `json:"project_id,omitzero"`
	Change  string    `json:"port_change_id,omitzero"`
}

// EncodeServer returns the record of a server. A word that DecodeServer does not know is an error.
func EncodeServer(s lifecycle.Server) ([]byte, error) {
	r := toServer(s)
	if err := r.checkWords(); err != nil {
		return nil, fault.New(fault.Internal, "cannot write the record of server %s: %w", s.ID, err)
	}
	return encode("server "+s.ID, r)
}

// DecodeServer reads the record of the server with this id. The record of another server, or of none, is refused, and
// so is one with a field or a word that is not known.
func DecodeServer(id string, text []byte) (lifecycle.Server, error) {
	var r serverRecord
	err := decode("server "+id, text, &r)
	switch {
	case err != nil:
	case r.ID != id:
		err = foreign("server "+id, r.ID)
	default:
		if err = r.checkWords(); err != nil {
			err = unreadable("server "+id, err)
		}
	}
	if err != nil {
		return lifecycle.Server{}, err
	}
	return fromServer(r), nil
}

// stages are the words that State may have: a server that moves is stored with the phase of its move.
var stages = func() map[string]bool {
	words := map[string]bool{"": true}
	for _, s := range lifecycle.States() {
		words[string(s)] = s != lifecycle.Moving
	}
	for _, p := range lifecycle.MovePhases() {
		words[string(p)] = true
	}
	return words
}()

// checkWords returns an error for a word that package lifecycle does not have.
func (r serverRecord) checkWords() error {
	unknown := func(k lifecycle.Kind) bool { return k != "" && !slices.Contains(lifecycle.Kinds(), k) }
	switch {
	case !stages[r.State]:
		return fmt.Errorf("%q is not a known state", r.State)
	case r.Task != "" && !slices.Contains(lifecycle.Tasks(), r.Task):
		return fmt.Errorf("%q is not a known task", r.Task)
	case !slices.Contains(lifecycle.Powers(), r.Power) || !slices.Contains(lifecycle.Powers(), r.Actual):
		return fmt.Errorf("%q or %q is not a known power state", r.Power, r.Actual)
	case r.Move != nil && unknown(r.Move.Kind):
		return fmt.Errorf("%q is not a known kind of moves", r.Move.Kind)
	case r.Migration != nil && unknown(r.Migration.Kind):
		return fmt.Errorf("%q is not a known kind of moves", r.Migration.Kind)
	}
	return nil
}

// toServer and the functions like it list all fields of a record in their order: a field that is forgotten does not
// compile.
func toServer(s lifecycle.Server) serverRecord {
	return serverRecord{
		serverIdentity: serverIdentity{s.ID, s.Name, s.Description, s.Project, s.User, s.CreateRequest, s.Image,
			optional(s.ImageSnapshot, toImage), firstBootRecord(s.FirstBoot), s.Zone, s.HostZone, s.Metadata, s.Tags,
			optional(s.Lock, func(l lifecycle.Lock) lockRecord { return lockRecord(l) }), accessRecord(s.AccessIPs), s.AutoDisk,
			s.ConfigDrive},
		serverRequest: serverRequest{flavorRecord(s.Flavor), toAsk(s.Ask), each(s.Requests, toRequest), s.RequestedAmounts,
			each(s.Topology, toGuestCell), s.PortAmounts,
			eachValue(s.Guarantees, func(g lifecycle.Guarantee) guaranteeRecord { return guaranteeRecord(g) }), s.Reserved,
			each(s.Networks, toNetwork),
			each(s.SecurityGroups, toSecurityGroup), s.Group, s.Target, s.SameHost, s.DifferentHost,
			s.MinCount, s.Power, s.RescueImage},
		serverPlace: serverPlace{s.Host, s.Reported, s.PreviousConsumer, s.Round, s.Try, each(s.Choices, toChoice),
			s.FailedHosts, each(s.FilterFailures, toFailure), optional(s.Search, toSearch),
			s.MinCountReached, each(s.Devices, toPicked), each(s.Cells, toCellPlace),
			each(s.Ports, toPort), each(s.Leftovers, toResidence),
			each(s.LastReports, func(v lifecycle.LastReport) reportRecord { return reportRecord(v) })},
		serverProgress: serverProgress{s.Stage(), s.Task, s.Actual, s.Rescued, s.Shelved,
			optional(s.ShelvedImage, toShelvedImage),
			s.UnusedImages, s.Builds,
			optional(s.PreRebuild, toRebuild), optional(s.PortChange, toPortChange), s.PortsRefused,
			s.DeletedPorts, each(s.PortQueue, toQueuedPort),
			each(s.PortOutcomes, func(o lifecycle.PortOutcome) portOutcomeRecord { return portOutcomeRecord(o) }),
			optional(s.Move, toMove),
			optional(s.Migration, toMigration),
			s.LastAction,
			optional(s.Refusal, toFault), optional(s.Fault, toFault),
			each(s.History, func(m lifecycle.HistoryEntry) historyRecord { return historyRecord(m) })},
		serverTimes: serverTimes{s.Created, s.Updated, s.Launched, s.Ended, s.Requested, s.SoftDeleted, s.ShelvedAt,
			s.Revision},
	}
}

func fromServer(r serverRecord) lifecycle.Server {
	state := lifecycle.State(r.State)
	if r.Move != nil && r.State != "" {
		state = lifecycle.Moving // fromMove has read the phase
	}
	return lifecycle.Server{
		ID: r.ID, Name: r.Name, Description: r.Description, Project: r.Project, User: r.User,
		CreateRequest: r.CreateRequest, Image: r.Image,
		ImageSnapshot: optional(r.ImageSnapshot, fromImage), FirstBoot: lifecycle.FirstBoot(r.firstBootRecord), Zone: r.Zone,
		HostZone: r.HostZone,
		Metadata: r.Metadata, Tags: r.Tags,
		Lock:      optional(r.Lock, func(l lockRecord) lifecycle.Lock { return lifecycle.Lock(l) }),
		AccessIPs: lifecycle.AccessIPs(r.accessRecord), AutoDisk: r.AutoDisk,
		ConfigDrive: r.ConfigDrive,

		Flavor: flavor.Flavor(r.Flavor), Ask: fromAsk(r.Ask), Requests: each(r.PCIRequests, fromRequest),
		RequestedAmounts: r.Amounts, PortAmounts: r.PortAmounts,
		Guarantees: eachValue(r.Guarantees, func(g guaranteeRecord) lifecycle.Guarantee { return lifecycle.Guarantee(g) }),
		Reserved:   r.Reserved,
		Topology:   each(r.NUMACells, fromGuestCell), Networks: each(r.Networks, fromNetwork),
		SecurityGroups: each(r.Groups, fromSecurityGroup),
		Group:          r.Group,
		Target:         r.Target,
		SameHost:       r.Same,
		DifferentHost:  r.Other,
		MinCount:       r.MinCount,
		Power:          r.Power,

		Host: r.Host, Reported: r.Reported, PreviousConsumer: r.PreviousConsumer, Round: r.Round, Try: r.ClaimAttempt,
		Choices: each(r.Choices, fromChoice), FailedHosts: r.ExcludedHosts,
		FilterFailures: each(r.FilterFailures, fromFailure), Search: optional(r.Search, fromSearch),
		MinCountReached: r.MinCountReached, Devices: each(r.Devices, fromPicked),
		Cells:       each(r.CellPlaces, fromCellPlace),
		Ports:       each(r.Ports, fromPort),
		Leftovers:   each(r.Leftovers, fromResidence),
		LastReports: each(r.LastReports, func(v reportRecord) lifecycle.LastReport { return lifecycle.LastReport(v) }),

		State: state, Task: r.Task, Actual: r.Actual, RescueImage: r.Rescue, Rescued: r.Rescued, Shelved: r.Shelved,
		ShelvedImage: optional(r.ShelvedImage, fromShelvedImage),
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
		SoftDeleted: r.SoftDeleted, ShelvedAt: r.ShelvedAt,
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
	return moveRecord{m.Kind, m.To, m.SameHostAllowed, m.Consumer, toResidence(m.From),
		m.StopSource, m.KeepStopped, m.SourceStopped, m.RevertRequested,
		m.Failed, m.SourceLost, m.Refusals, m.Aborted, m.Forced}
}

// fromMove reads a move, or returns nil. Its phase is the state of the server's record.
func fromMove(r *moveRecord, phase string) *lifecycle.Move {
	if r == nil {
		return nil
	}
	return &lifecycle.Move{
		Kind: r.Kind, Phase: lifecycle.MovePhase(phase), To: r.TargetHost,
		SameHostAllowed: r.SameHostAllowed, Consumer: r.Consumer,
		From: fromResidence(r.Source), StopSource: r.StopSource, KeepStopped: r.KeepStopped, SourceStopped: r.SourceStopped,
		RevertRequested: r.Reverting, Failed: r.Failure,
		SourceLost: r.SourceLost, Refusals: r.Refusals,
		LiveRequests: lifecycle.LiveRequests{Aborted: r.Aborted, Forced: r.Forced},
	}
}

func toMigration(m lifecycle.Migration) migrationRecord {
	return migrationRecord{m.ID, m.Kind, m.Status, m.From, m.To, m.OldFlavor, m.NewFlavor, m.Begun,
		m.Updated, m.User, m.Project}
}

func fromMigration(r migrationRecord) lifecycle.Migration {
	return lifecycle.Migration{
		ID: r.ID, Kind: r.Kind, Status: r.Status, From: r.SourceHost, To: r.DestinationHost,
		OldFlavor: r.OldFlavor, NewFlavor: r.NewFlavor, Begun: r.Created, Updated: r.Updated,
		User: r.User, Project: r.Project,
	}
}

func toFailure(f schedule.FilterFailure) failureRecord {
	return failureRecord{f.Filter, f.Reason, f.Count, f.Hosts, f.Nearest}
}

func fromFailure(r failureRecord) schedule.FilterFailure {
	return schedule.FilterFailure{Filter: r.Filter, Reason: r.Reason, Count: r.Count, Hosts: r.Hosts, Nearest: r.Nearest}
}

func toSearch(s lifecycle.HostSearch) searchRecord {
	return searchRecord{s.At, each(s.Funnel, func(f schedule.FunnelRow) funnelRecord { return funnelRecord(f) }),
		each(s.Nearest, func(m schedule.NearestMiss) missRecord {
			return missRecord{m.Host, each(m.Deficits, func(d schedule.Deficit) deficitRecord { return deficitRecord(d) })}
		})}
}

func fromSearch(r searchRecord) lifecycle.HostSearch {
	return lifecycle.HostSearch{At: r.At, Search: schedule.Search{
		Funnel: each(r.Funnel, func(f funnelRecord) schedule.FunnelRow { return schedule.FunnelRow(f) }),
		Nearest: each(r.Nearest, func(m missRecord) schedule.NearestMiss {
			return schedule.NearestMiss{Host: m.Host,
				Deficits: each(m.Deficits, func(d deficitRecord) schedule.Deficit { return schedule.Deficit(d) })}
		})}}
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

func toShelvedImage(i lifecycle.ShelvedImage) shelvedImageRecord {
	return shelvedImageRecord{i.ID, i.Format, i.Bytes, i.SHA512,
		optional(i.Copy, func(c lifecycle.ImageCopy) imageCopyRecord { return imageCopyRecord(c) })}
}

func fromShelvedImage(r shelvedImageRecord) lifecycle.ShelvedImage {
	return lifecycle.ShelvedImage{ID: r.ID, Format: r.Format, Bytes: r.Bytes, SHA512: r.SHA512,
		Copy: optional(r.Copy, func(c imageCopyRecord) lifecycle.ImageCopy { return lifecycle.ImageCopy(c) })}
}

func toFirstBoot(b lifecycle.FirstBoot) firstBootRecord   { return firstBootRecord(b) }
func fromFirstBoot(r firstBootRecord) lifecycle.FirstBoot { return lifecycle.FirstBoot(r) }

func toSecurityGroup(g lifecycle.SecurityGroup) securityGroupRecord { return securityGroupRecord(g) }
func fromSecurityGroup(r securityGroupRecord) lifecycle.SecurityGroup {
	return lifecycle.SecurityGroup(r)
}

func toFault(f lifecycle.Fault) faultRecord   { return faultRecord(f) }
func fromFault(r faultRecord) lifecycle.Fault { return lifecycle.Fault(r) }
