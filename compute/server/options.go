package server

import (
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/compute/server/actions"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/hosts"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/operator"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
	"github.com/openberth/berth/compute/store"
)

// Store is the sum of what the packages of handlers need of the database; *store.Store implements it and documents its
// faults.
type Store interface {
	actions.Store
	catalog.FlavorStore
	catalog.GroupStore
	catalog.KeyPairStore
	catalog.QuotaStore
	catalog.UsageStore
	hosts.Accounts
	hosts.AssignmentStore
	hosts.DeviceStore
	hosts.Store
	networking.Store
	operator.Store
	request.Store
	servers.Store

	Available() error
	CheckWrites(patience time.Duration) error
}

var _ Store = (*store.Store)(nil)

// Conductor executes the requests of users and agents; *conductor.Conductor implements it and documents its faults.
type Conductor interface {
	actions.Conductor
	hosts.Conductor
	networking.Conductor
	operator.Conductor
	servers.Conductor
}

// Agents knows which agents serve hosts, and whether they live.
type Agents interface {
	hosts.Agents
	request.Agents
}

// Providers is what the handlers need of Placement; *placement.Client implements it.
type Providers interface {
	operator.Providers
	actions.Providers
}

// Images is what the handlers need of an image service; *image.Client implements it.
type Images interface {
	catalog.Images
	servers.Images
}

// Options are what a server needs. Those before Images must be set; the others have defaults.
type Options struct {
	Store     Store
	Agents    Agents
	Conductor Conductor
	Audits    hosts.Audits
	Scheduler hosts.Scheduler
	Ports     hosts.Ports
	Images    Images   // nil: imageRef is stored without a check
	Networks  Networks // nil: no server has ports
	// of Placement; nil: a rebuild must not require more, hypervisors have no amounts
	Providers Providers
	catalog.FlavorOptions
	edge.Options
	Consoles   consoles.Pages
	ResizeHere bool // [DEFAULT] allow_resize_to_same_host

	Zones
	Streams
	// [api] enable_instance_password is false: answers have no adminPass
	HidePasswords bool
	// [compute] ports_need_microversion is false: ports with a resource request work at every version
	PortsAtAnyVersion bool
	Lease             func() error    // returns a fault if nothing may be sent to agents now; nil: no lease
	Stop              <-chan struct{} // closed at shutdown, to end the streams of assignments; nil: never
	NewID             func() string   // a random UUID
}

// Streams are what answers without an end need.
type Streams struct {
	Feed      *eventstream.Feed // NewFeed; nil: there are no events
	Heartbeat time.Duration     // the longest silence on a stream of assignments: half of host.Heartbeat
}

// Zones are the availability zones of hosts and servers without one.
type Zones struct {
	DefaultZone  string // [DEFAULT] default_availability_zone; empty: nova
	ScheduleZone string // [DEFAULT] default_schedule_zone
}

// Networks is what the handlers need of a network service; *network.Client implements it.
type Networks interface {
	hosts.Networks
	networking.Networks
}
