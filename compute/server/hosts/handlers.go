// Package hosts holds the host API: what agents report and what is assigned to them, and what operators see and do of
// hosts. Each resource has its file, with its paths, its handlers and its views.
package hosts

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

// Store is what the handlers need of servers, flavors and hosts in the database; *store.Store implements it, as the
// other stores of this package, and documents the faults.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	ReadServers(ctx context.Context, ids []string) ([]lifecycle.Server, error)
	Flavor(ctx context.Context, id string) (flavor.Flavor, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Hosts(ctx context.Context) ([]schedule.Host, error)
	DisabledHosts(ctx context.Context) (map[string]string, error)
	DeclaredSince(ctx context.Context) (dead, disabled map[string]time.Time, err error)
}

// AssignmentStore is what the handlers need of the assignments of hosts.
type AssignmentStore interface {
	Assignments(ctx context.Context, host string) (store.Assignments, error)
	Position(ctx context.Context, host string) (store.Position, error)
	EpochEnd(ctx context.Context, host string, e store.Epoch) (revision int64, known bool, err error)
	Subscribe(host string) (changed <-chan struct{}, stop func())
}

// DeviceStore is what the handlers need of requests to clean and disable devices.
type DeviceStore interface {
	RequestClean(ctx context.Context, w store.CleanRequest) error
	CleanRequests(ctx context.Context) ([]store.CleanRequest, error)
	ResolveClean(ctx context.Context, host string, needsCleaning func(pci.Address) bool,
		answers []store.CleanRequest) error
	DisableDevice(ctx context.Context, d store.DisabledDevice) error
	EnableDevice(ctx context.Context, host string, address pci.Address, now []pci.Disablement, request string) error
	DisabledDevices(ctx context.Context, now time.Time) ([]store.DisabledDevice, error)
	ResolveDisabled(ctx context.Context, host string, known, ended []string, now time.Time) error
}

// Agents records which agents serve hosts, and whether they are alive; *presence.Agents implements it and documents
// its faults.
type Agents interface {
	Admit(ctx context.Context, host string, from schedule.Sender) error
	Report(ctx context.Context, h schedule.Host, from schedule.Sender) error
	Connected(host string) (closed func())
	Alive(ctx context.Context, host string, from schedule.Sender) error
	StartFailed(ctx context.Context, host string, from schedule.Sender, why string) error
	StartFailures() map[string]presence.StartFailure
	Followed(host, epoch string, revision int64)
	SetImageCache(host string, size *host.ImageCache)
	SilentAfter() time.Duration
	LastSign(host string) (connected bool, quiet time.Duration)
}

// Conductor records the reports of guests, and what operators declare about hosts.
type Conductor interface {
	HostConditions(host string) []condition.Condition
	Guest(ctx context.Context, id, start string, report lifecycle.Report) error
	HostDown(ctx context.Context, host string) error
	HostUp(ctx context.Context, host string) error
	HostForget(ctx context.Context, host string) (removed, kept []string, err error)
}

// Audits compares hosts with Placement; *audit.Auditor implements it and documents its faults.
type Audits interface {
	HostReported(host schedule.Host)
	HostForeign(host string) []audit.Foreign
	SetReported(found map[string]audit.Reported, until time.Time)
	Reported() (found map[string]audit.Reported, until time.Time)
	HostAudit(ctx context.Context, host string) (audit.Audit, error)
	HostHeal(ctx context.Context, host string, o audit.Healing) (audit.Audit, error)
}

// Scheduler answers what would fit where; *scheduler.Scheduler implements it and documents its faults.
type Scheduler interface {
	Headroom(ctx context.Context, f flavor.Flavor, ports []portrequest.Port) ([]scheduler.HostHeadroom, string, error)
	PlanDrain(ctx context.Context, host string, only func(lifecycle.Server) bool) ([]scheduler.PlannedMove, error)
}

// Ports heals the bindings and allocations of ports; *ports.Binder implements it and documents its faults.
type Ports interface {
	HealPorts(ctx context.Context, host string, servers []string, apply bool) ([]ports.Healing, error)
}

// Networks is what the handlers need of a network service, with the rights of an administrator; *network.Client
// implements it.
type Networks interface {
	Networks(ctx context.Context, query url.Values) ([]network.Network, error)
	Subnets(ctx context.Context, query url.Values) ([]network.Subnet, error)
	Ports(ctx context.Context, query url.Values) ([]network.Port, error)
}

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	*request.Lookups
	Store     Store
	Assigned  AssignmentStore
	Devices   DeviceStore
	Accounts  Accounts
	Agents    Agents
	Conductor Conductor
	Audits    Audits
	Scheduler Scheduler
	Ports     Ports
	Networks  Networks // nil: no server has ports
	Consoles  *consoles.Requests
	Strategy  string   // the auth_strategy
	Ignored   []string // [berth] ignored_properties
	Log       *slog.Logger
	Lease     func() error    // returns a fault if nothing may be sent to agents now; nil: no lease
	Stop      <-chan struct{} // closed at shutdown, to end the streams of assignments; nil: never
	Heartbeat time.Duration   // the longest silence on a stream
	Now       func() time.Time
}
