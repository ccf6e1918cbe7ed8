// Package server is the HTTP server of compute: the Compute API of api/compute, and the host API of api/host.
//
// Handlers read requests, call the store and the conductor, and write responses; they decide nothing about servers.
// They are in packages below this one, each with the methods of the store, of the conductor and of its parts that it
// calls; each resource has one file with its paths, its handlers and its views. From the bottom to the top:
//
//	request    the call, the checks and their order, errors, bodies, lists, lookups: what handlers share
//	catalog    flavors, extra specs, images, key pairs, quotas, limits, usage
//	consoles   the consoles of guests
//	operator   hypervisors, compute services, hosts and zones of the Compute API
//	networking ports, addresses and security groups of servers
//	servers    servers, their metadata and tags
//	actions    the actions of servers, migrations and history
//	hosts      the host API
//
// This package has the options (options.go), the version documents, the table of all routes and their wiring.
package server

import (
	"cmp"
	"net/http"
	"os"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/actions"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/hosts"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/operator"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
)

// New returns the handler. It starts nothing.
func New(o Options) http.Handler {
	o.Options = o.Options.WithDefaults(policies.Default())
	if o.Heartbeat == 0 {
		o.Heartbeat = host.Heartbeat / 2
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Metrics == nil {
		o.Metrics = edge.NewMetrics("berth_compute_")
	}
	s := newServer(o)
	resources := request.Resources(s.guardedRoutes())
	return edge.New(edge.API[*request.Call]{
		Options: o.Options, Style: request.Style, Database: o.Store,
		Bodies:    rest.NewBodyBudget(request.BodyBudget, request.MaxReport),
		IDHeaders: []string{"X-Compute-Request-Id", "X-Openstack-Request-Id"},
		Routes:    s.routes(), HeadIsGet: true, Escaped: true,
		NewCall: func() *request.Call { return &request.Call{Strategy: o.Strategy} },
		Prepare: func(c *request.Call) { c.EnterV2(); c.RemoveSlash(); c.RemoveProject(resources) },
		Checks:  request.Checks(),
		Refuse:  (*request.Call).Refuse,
		Encode:  (*request.Call).Encode,
	})
}

// newServer connects the handlers.
func newServer(o Options) *server {
	process, err := os.Hostname()
	if err != nil {
		process = "localhost"
	}
	lookups := request.NewLookups(o.Store, o.Agents, o.Strategy)
	lookups.DefaultZone = cmp.Or(o.DefaultZone, lookups.DefaultZone)
	s := &server{
		store: o.Store, feed: o.Feed,
		catalog: &catalog.Handlers{FlavorOptions: o.FlavorOptions, Flavors: o.Store, KeyPairs: o.Store, Groups: o.Store,
			Usages: o.Store, Quotas: o.Store, Images: o.Images, Now: o.Now, NewID: o.NewID},
		consoles: &consoles.Handlers{Lookups: lookups, Pages: o.Consoles, Store: o.Store, Now: o.Now,
			Log: o.Log, Heartbeat: o.Heartbeat, Stop: o.Stop},
		operator: &operator.Handlers{Lookups: lookups, Store: o.Store, Conductor: o.Conductor, Providers: o.Providers,
			Process: process, Now: o.Now},
	}
	s.network = &networking.Handlers{Lookups: lookups, Store: o.Store, Conductor: o.Conductor, Networks: o.Networks,
		PortsAtAnyVersion: o.PortsAtAnyVersion, Log: o.Log, NewID: o.NewID}
	s.servers = &servers.Handlers{Lookups: lookups, Catalog: s.catalog, Networking: s.network, Store: o.Store,
		Conductor: o.Conductor, Images: o.Images, ScheduleZone: o.ScheduleZone, HidePasswords: o.HidePasswords,
		Log: o.Log, Now: o.Now}
	s.actions = &actions.Handlers{Lookups: lookups, Servers: s.servers, Networking: s.network, Catalog: s.catalog,
		Consoles: s.consoles, Store: o.Store, Conductor: o.Conductor, Providers: o.Providers, ResizeHere: o.ResizeHere,
		Now: o.Now, NewID: o.NewID}
	s.hosts = &hosts.Handlers{Lookups: lookups, Store: o.Store, Assigned: o.Store, Devices: o.Store, Accounts: o.Store,
		Agents: o.Agents, Conductor: o.Conductor, Audits: o.Audits, Scheduler: o.Scheduler, Ports: o.Ports,
		Networks: o.Networks,
		Consoles: &s.consoles.Requests, Strategy: o.Strategy, Ignored: o.Ignored, Log: o.Log, Lease: o.Lease,
		Stop:      o.Stop,
		Heartbeat: o.Heartbeat, Now: o.Now}
	return s
}
