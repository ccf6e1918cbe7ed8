// Package networking has what servers have of the network service: their ports, addresses and security groups, and the
// Compute API's own paths to networks and security groups, which it answers from the network service.
package networking

import (
	"context"
	"log/slog"
	"net/url"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
)

// Store is what the handlers need of the database; *store.Store implements it and documents its faults.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Change(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error)
	ChangeWithinQuota(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (
		lifecycle.Server, error)
}

// Conductor changes the ports of servers; *conductor.Conductor implements it and documents its faults.
type Conductor interface {
	ChangePort(ctx context.Context, id string, request lifecycle.PortChangeRequest) error
}

// Networks is what the handlers need of a network service, with the rights of an administrator; *network.Client
// implements it. Methods return fault.NotFound for an object that does not exist.
type Networks interface {
	Networks(ctx context.Context, query url.Values) ([]network.Network, error)
	Ports(ctx context.Context, query url.Values) ([]network.Port, error)
	Port(ctx context.Context, id string) (network.Port, error)
	Policies(ctx context.Context, query url.Values) ([]network.Policy, error)
	UpdatePort(ctx context.Context, id string, attributes map[string]any) (network.Port, error)
	Extensions(ctx context.Context) ([]string, error)
	SecurityGroups(ctx context.Context, query url.Values) ([]network.SecurityGroup, error)
	SharedWith(ctx context.Context, kind, project string) (ids []string, err error)
	GroupChanges
}

// GroupChanges are the changes of security groups in a network service; *network.Client implements it.
type GroupChanges interface {
	CreateSecurityGroup(ctx context.Context, attributes map[string]any) (network.SecurityGroup, error)
	UpdateSecurityGroup(ctx context.Context, id string, attributes map[string]any) (network.SecurityGroup, error)
	DeleteSecurityGroup(ctx context.Context, id string) error
	CreateSecurityGroupRule(ctx context.Context, attributes map[string]any) (network.SecurityGroupRule, error)
	DeleteSecurityGroupRule(ctx context.Context, id string) error
}

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	*request.Lookups
	Store     Store
	Conductor Conductor
	Networks  Networks // nil: no server has ports

	// [compute] ports_need_microversion is false: ports with a resource request work at every version
	PortsAtAnyVersion bool
	Log               *slog.Logger
	NewID             func() string

	support groupSupport
}
