// Package fleet contains what the services of a cloud have at one time, and what follows from it: the devices of hosts
// and who holds them, and the differences between compute and Placement.
//
// The cloud may have OpenStack's Nova, Placement and Neutron, or Berth's services. fleet/read reads a Snapshot.
package fleet

import (
	"slices"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Snapshot is what the services of a cloud had when they were read.
type Snapshot struct {
	Taken       time.Time // when the read began
	Berth       bool      // compute is Berth's
	Providers   []Provider
	Consumers   map[resource.ConsumerID]Consumer // the consumers of allocations whose owner was read
	Servers     []Server
	Migrations  []Migration
	Hypervisors []Hypervisor
	Services    []Service
	Ports       []Port
	Agents      []NetworkAgent
	Reported    []ReportedDevice // what agents of Berth report; empty where compute is Nova
	Gaps        []Gap
	Absent      []Gap // parts of services that the cloud does not have

	// HostRows and DeviceRows were read from Berth's Placement in place of Providers; nil: they follow from Providers.
	HostRows   []hosttree.HostRow
	DeviceRows []hosttree.Device
}

// Part is a part of a snapshot that can be missing.
type Part string

// The parts of a snapshot.
const (
	Providers   Part = "providers"
	Consumers   Part = "consumers"
	Servers     Part = "servers"
	Migrations  Part = "migrations"
	Hypervisors Part = "hypervisors"
	Services    Part = "services"
	Ports       Part = "ports"
	Agents      Part = "network agents"
	Reported    Part = "reports of agents"
)

// Gap is a part of the snapshot that could not be read, or not whole.
type Gap struct {
	Part Part   `json:"part"`
	Why  string `json:"why"`
}

// Provider is a provider with the allocations on it.
type Provider = hosttree.Provider

// Consumer is the owner and the generation of a consumer of allocations.
type Consumer struct {
	Generation    *int
	Project, User string
	Type          string // INSTANCE, MIGRATION, unknown or a type of another service
}

// Flavor is the flavor of a server.
type Flavor = flavor.Flavor

// Server is a server of compute.
type Server struct {
	ID, Name, Project, User    string
	Status, VMState, TaskState string // in Nova's words
	Host, Node                 string // its compute service and its hypervisor; empty without
	Flavor                     Flavor
	FlavorUnknown              bool // compute did not return the flavor, as for a server of a cell that does not answer
	ImageProperties            map[string]string
	ImageUnknown               string // id of the image, if compute does not return its properties
	FromVolume                 bool   // it has no image: its root disk is a volume
	Updated                    time.Time
	Fault                      string
}

// Migration is a move of a server.
type Migration struct {
	UUID, Server, Kind, Status string
	SourceHost, SourceNode     string
	DestHost, DestNode         string
	Updated                    time.Time
}

// ended are the statuses of migrations that hold nothing any more.
var ended = []string{"completed", "confirmed", "reverted", "cancelled", "error", "failed"}

// InProgress reports whether the migration may hold allocations. An evacuation that is done does until the service of
// its source has run again.
func (m Migration) InProgress() bool {
	return !slices.Contains(ended, m.Status) && (m.Status != "done" || m.Kind == "evacuation")
}

// Hypervisor is a hypervisor of compute. ID is that of its root provider.
type Hypervisor struct {
	ID   provider.ID
	Name string // of its root provider
	Host string // of its service
}

// Service is the compute service of a host.
type Service struct {
	Host, Zone, State, Status, Reason string
	ForcedDown                        bool
}

// StatusUnknown is the status of a server or a service in a cell of Nova that does not answer.
const StatusUnknown = "UNKNOWN"

// Port is a port of a server.
type Port struct {
	ID, Server, Host string
	Requests         []resource.Amounts // of each group of its resource_request
	Providers        []provider.ID      // binding:profile.allocation
	Device           string             // binding:profile.pci_slot
}

// NetworkAgent is an agent of the network service.
type NetworkAgent struct {
	Host, Type string
}

// ReportedDevice is a device in the report of an agent of Berth.
type ReportedDevice struct {
	Host, Address string
	Provider      provider.ID // empty: it is not in Placement
	Holder        resource.ConsumerID
}

// Missing reports whether one of the parts has a gap or is absent.
func (s *Snapshot) Missing(parts ...Part) bool {
	return slices.ContainsFunc(slices.Concat(s.Gaps, s.Absent), func(g Gap) bool {
		return slices.Contains(parts, g.Part)
	})
}
