package server

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Store is what the handlers need of the database; *store.Store implements it and documents its faults.
type Store interface {
	catalog.Store
	request.Store

	Change(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error)
	ListServers(ctx context.Context, f store.ServerFilter) ([]lifecycle.Server, error)
	ServerRefs(ctx context.Context, f store.ServerFilter) ([]store.ServerRef, error)
	HostLoads(ctx context.Context, host string) (map[string]store.HostLoad, error)

	Assignments(ctx context.Context, host string) (store.Assignments, error)
	Position(ctx context.Context, host string) (store.Position, error)
	EpochEnd(ctx context.Context, host string, e store.Epoch) (revision int64, known bool, err error)
	Subscribe(host string) (changed <-chan struct{}, stop func())
	RequestClean(ctx context.Context, w store.CleanRequest) error
	CleanRequests(ctx context.Context) ([]store.CleanRequest, error)
	ResolveClean(ctx context.Context, host string, needsCleaning func(pci.Address) bool,
		answers []store.CleanRequest) error
	HostAccounts(ctx context.Context) (map[string]store.HostAccount, error)
	BindHost(ctx context.Context, b store.HostAccount) error
	BindFreeHost(ctx context.Context, b store.HostAccount) (store.HostAccount, error)
	UnbindHost(ctx context.Context, host string) error
	DisableHost(ctx context.Context, host, reason string, now time.Time) error
	EnableHost(ctx context.Context, host string) error
	DisabledHosts(ctx context.Context) (map[string]string, error)
	Migrations(ctx context.Context, f store.MigrationFilter) ([]store.Migration, error)

	Available() error
	CheckWrites(patience time.Duration) error
}

var _ Store = (*store.Store)(nil)

// Conductor executes the requests of users and agents; *conductor.Conductor implements it and documents its faults.
type Conductor interface {
	Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error)
	Delete(ctx context.Context, id string) error
	Admit(ctx context.Context, host string, from schedule.Sender) error
	Connected(host string) (closed func())
	Alive(ctx context.Context, host string, from schedule.Sender) error
	StartFailed(ctx context.Context, host string, from schedule.Sender, why string) error
	StartFailure(host string) conductor.StartFailure
	StartFailures() map[string]conductor.StartFailure
	Followed(host, epoch string, revision int64)
	Report(ctx context.Context, h schedule.Host, from schedule.Sender) error
	IsSilent(host string) bool
	SilentAfter() time.Duration
	LastSign(host string) (connected bool, quiet time.Duration)
	Guest(ctx context.Context, id, start string, report lifecycle.Report) error
	Act(ctx context.Context, id string, action lifecycle.ActionRequested) (lifecycle.Server, error)
	ChangePort(ctx context.Context, id string, request lifecycle.PortChangeRequest) error
	HostDown(ctx context.Context, host string) error
	HostUp(ctx context.Context, host string) error
	HostForget(ctx context.Context, host string) (removed, kept []string, err error)
	HostReported(host schedule.Host)
	HostConditions(host string) []string
	HostForeign(host string) []conductor.Foreign
	HostAudit(ctx context.Context, host string) (conductor.Audit, error)
	HostHeal(ctx context.Context, host string, o conductor.Healing) (conductor.Audit, error)
	HealPorts(ctx context.Context, host string, servers []string, apply bool) ([]conductor.PortHealing, error)
	Headroom(ctx context.Context, f flavor.Flavor, ports []portrequest.Port) ([]conductor.HostHeadroom, string, error)
	PlanDrain(ctx context.Context, host string) ([]conductor.PlannedMove, error)
}

// Images is what the handlers need of an image service; *image.Client implements it. Image returns fault.NotFound for
// an image that the caller may not see, fault.Forbidden if the service rejects the token, and fault.Unavailable if
// the service does not answer.
type Images interface {
	Image(ctx context.Context, who identity.Identity, token, id string) (image.Image, error)
}

// Providers is what the handlers need of Placement; *placement.Client implements it. Providers returns fault.Invalid
// for a query with a trait that does not exist; Inventories and Usages return fault.NotFound for a provider that does
// not exist.
type Providers interface {
	Providers(ctx context.Context, query url.Values) ([]provider.Provider, error)
	Inventories(ctx context.Context, id provider.ID) (placement.InventorySet, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
}

// Options are what a server needs. Store and Conductor must be set; the others have defaults.
type Options struct {
	Store     Store
	Conductor Conductor
	Images    Images   // nil: imageRef is stored without a check
	Networks  Networks // nil: no server has ports
	// of Placement; nil: a rebuild must not require more, hypervisors have no amounts
	Providers Providers
	catalog.FlavorOptions
	ResizeHere   bool                   // [DEFAULT] allow_resize_to_same_host
	Authenticate identity.Authenticator // identity.NoAuth2
	Strategy     string                 // [api] auth_strategy; "": noauth2
	Challenge    string                 // the WWW-Authenticate header of a 401 response; empty: none
	Enforcer     edge.Enforcer          // the access policy: policies.Default()
	CORS         cors.Options           // [cors]; without AllowedOrigin no CORS headers are sent
	ProxyHeaders bool                   // [oslo_middleware] enable_proxy_headers_parsing: they are trusted
	Log          *slog.Logger           // slog.Default()
	Lease        func() error           // returns a fault if nothing may be sent to agents now; nil: no lease
	Stop         <-chan struct{}        // closed at shutdown, to end the streams of assignments; nil: never
	Heartbeat    time.Duration          // the longest silence on a stream: half of host.Heartbeat
	Now          func() time.Time       // time.Now
	NewID        func() string          // a random UUID
}

type server struct {
	Options
	*request.Lookups
	catalog  *catalog.Handlers
	consoles *consoles.Handlers
}

// Networks is what the handlers need of a network service, with the rights of an administrator; *network.Client
// implements it. Methods return fault.NotFound for an object that does not exist.
type Networks interface {
	Networks(ctx context.Context, query url.Values) ([]network.Network, error)
	Subnets(ctx context.Context, query url.Values) ([]network.Subnet, error)
	Ports(ctx context.Context, query url.Values) ([]network.Port, error)
	Port(ctx context.Context, id string) (network.Port, error)
}
