// Package scheduler decides on which host a server can run, how many more servers fit, and where the servers of a host
// would move. It reads only: none of its interfaces has a method that changes another service or the database.
//
// The files, from the bottom to the top: scheduler.go; ports_of_server.go, request.go, input.go, disk_moves.go and
// searches.go; choose_host.go; port_choices.go, planned_moves.go and plan_drain.go. headroom_ask.go,
// headroom_candidates.go, headroom_filters.go and headroom.go count what still fits.
package scheduler

import (
	"context"
	"net/url"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement returns allocation candidates; *placement.Client implements it.
type Placement interface {
	Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error)
}

// Network has the requests to the network service that change nothing. Methods return fault.NotFound for an object that
// does not exist.
type Network interface {
	Ports(ctx context.Context, query url.Values) ([]network.Port, error)
	Port(ctx context.Context, id string) (network.Port, error)
	Network(ctx context.Context, id string) (network.Network, error)
}

// Store has the queries of the database that scheduling needs; *store.Store implements it.
type Store interface {
	Hosts(ctx context.Context) ([]schedule.Host, error)
	Roots(ctx context.Context) ([]schedule.HostRoot, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Reports(ctx context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error)
	OnHost(ctx context.Context, host string) ([]lifecycle.Server, error)
	Dead(ctx context.Context) ([]string, error)
	DisabledHosts(ctx context.Context) (map[string]string, error)
	RemovalHosts(ctx context.Context, server string) ([]string, error)
	// HostAggregates returns the aggregates of each host
	HostAggregates(ctx context.Context) (map[string][]schedule.Aggregate, error)
	// Read returns a server; fault.NotFound
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	// GroupOf returns what the group of a server requires of its host; nil: nothing
	GroupOf(ctx context.Context, server lifecycle.Server) (*schedule.ServerGroup, error)
}

// Audits are the audits of hosts; *audit.Auditor implements it.
type Audits interface {
	Missing(host schedule.Host) (missing, fresh bool)
	AuditRoot(ctx context.Context, host string, root provider.ID) (missing bool, err error)
}

// Agents are the agents of hosts; *presence.Agents implements it.
type Agents interface {
	SinceReport(host string) time.Duration
	StartFailure(host string) presence.StartFailure
	NotFollowing(host string) string
	AwaitsFirst() bool
}

// Failures are the hosts on which guests have failed; *presence.FailedBuilds implements it.
type Failures interface {
	Recent(now time.Time) map[string]bool
}

// Options are what a scheduler needs besides hosts and candidates.
type Options struct {
	Pack           bool          // [compute] packing_host_numa_cells_allocation_strategy
	Aliases        pci.Aliases   // [pci] alias
	PCIInPlacement bool          // [filter_scheduler] pci_in_placement
	Silence        time.Duration // [DEFAULT] service_down_time
	DefaultZone    string        // [DEFAULT] default_availability_zone

	Network  Network // nil: no server has ports
	Audits   Audits
	Agents   Agents
	Failures Failures
	Now      func() time.Time
	NewID    func() string // returns UUIDs, for requests
	// Leased returns a context for calls of other services, which ends with the lease of compute's database.
	Leased func(ctx context.Context) (bound context.Context, stop context.CancelFunc, err error)
}

// Scheduler selects hosts among the candidates of Placement.
type Scheduler struct {
	options   Options
	store     Store
	placement Placement
	searches  *candidateSearches
	loads     *loads

	moving map[string][]schedule.Guest // by host name: the guests that planned moves bring there; only for plans
}

// New returns a scheduler.
func New(store Store, placement Placement, options Options) *Scheduler {
	return &Scheduler{options: options, store: store, placement: placement, searches: newCandidateSearches(),
		loads: &loads{}}
}
