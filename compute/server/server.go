// Package server is the HTTP server of compute: the Compute API of api/compute, and the host API of api/host.
//
// Handlers read requests, call the store and the conductor, and write responses; they decide nothing about servers.
// Each resource has its file. What all requests share is in this file (the table of paths, New) and in call.go (the
// caller, the microversion, and the responses to errors).
package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/pci"
)

// Store is what the handlers need of the database; *store.Store implements it and documents its faults.
type Store interface {
	CreateFlavor(ctx context.Context, f flavor.Flavor) error
	Flavor(ctx context.Context, id string) (flavor.Flavor, error)
	Flavors(ctx context.Context, f store.FlavorFilter) ([]flavor.Flavor, error)
	DescribeFlavor(ctx context.Context, id, description string) error
	DeleteFlavor(ctx context.Context, id string) error
	SetExtraSpecs(ctx context.Context, id string, specs map[string]string) error
	DeleteExtraSpec(ctx context.Context, id, key string) error

	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Servers(ctx context.Context, f store.ServerFilter) ([]lifecycle.Server, error)

	Hosts(ctx context.Context) ([]schedule.Host, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Assignments(ctx context.Context, host string) (store.Assignments, error)
	Position(ctx context.Context, host string) (store.Position, error)
	EpochEnd(ctx context.Context, host string, e store.Epoch) (revision int64, known bool, err error)
	Subscribe(host string) (changed <-chan struct{}, stop func())
	RequestClean(ctx context.Context, w store.CleanRequest) error
	CleanRequests(ctx context.Context) ([]store.CleanRequest, error)
	ResolveClean(ctx context.Context, host string, needsCleaning func(pci.Address) bool,
		answers []store.CleanRequest) error
	Dead(ctx context.Context) ([]string, error)
	Migrations(ctx context.Context, f store.MigrationFilter) ([]store.Migration, error)

	Available() error
	CheckWrites(patience time.Duration) error
}

// Conductor executes the requests of users and agents; *conductor.Conductor implements it and documents its faults.
type Conductor interface {
	Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error)
	Delete(ctx context.Context, id string) error
	Admit(ctx context.Context, host string, from schedule.Sender) error
	Connected(host string, from schedule.Sender) (closed func())
	Report(ctx context.Context, h schedule.Host, from schedule.Sender) error
	SinceReport(host string) time.Duration
	LastSign(host string) (connected bool, quiet time.Duration)
	Guest(ctx context.Context, id, start string, report lifecycle.Report) error
	Act(ctx context.Context, id string, action lifecycle.ActionRequested) (lifecycle.Server, error)
	HostDown(ctx context.Context, host string) error
	HostUp(ctx context.Context, host string) error
	HostForget(ctx context.Context, host string) (removed, kept []string, err error)
	HostReported(host schedule.Host)
	HostConditions(host string) []string
	HostAudit(ctx context.Context, host string) (conductor.Audit, error)
	HostHeal(ctx context.Context, host string, oversubscribe bool) (conductor.Audit, error)
}

var _ Store = (*store.Store)(nil)

// Options are what a server needs. Store and Conductor must be set; the others have defaults.
type Options struct {
	Store          Store
	Conductor      Conductor
	Images         Images                 // nil: imageRef is stored without a check
	Providers      Providers              // of Placement, for a host's traits; nil: a rebuild must not require more
	Aliases        pci.Aliases            // [pci] alias
	PCIInPlacement bool                   // [filter_scheduler] pci_in_placement
	ResizeHere     bool                   // [DEFAULT] allow_resize_to_same_host
	Authenticate   identity.Authenticator // identity.NoAuth2
	Log            *slog.Logger           // slog.Default()
	Lease          func() error           // returns a fault if nothing may be sent to agents now; nil: no lease
	Stop           <-chan struct{}        // closed at shutdown, to end the streams of assignments; nil: never
	Heartbeat      time.Duration          // the longest silence on a stream: half of host.Heartbeat
	Now            func() time.Time       // time.Now
	NewID          func() string          // a random UUID
}

type server struct {
	Options
	mux    *http.ServeMux
	health health
	budget *rest.BodyBudget
}

// New returns the handler. It starts nothing.
func New(o Options) http.Handler {
	if o.Authenticate == nil {
		o.Authenticate = identity.NoAuth2
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = host.Heartbeat / 2
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	s := &server{Options: o, mux: http.NewServeMux(), budget: rest.NewBodyBudget(bodyBudget, maxReport)}
	for path, methods := range s.routes() {
		s.mux.Handle(path, s.endpoint(methods))
	}
	return s
}

// handler handles one method on one path. Its error is sent to the client in the error body of the API.
type handler func(*call) error

// methods are the handlers of one path, by HTTP method.
type methods map[string]handler

// public marks paths that need no token. Its handler, if any, handles all methods.
const public = "public"

// routes returns the handlers of all paths. {…} is one segment.
func (s *server) routes() map[string]methods {
	return map[string]methods{
		"/":         {public: unknownPath},
		"/{$}":      {public: nil, http.MethodGet: showVersions},
		"/v2.1":     {public: nil, http.MethodGet: showVersion},
		"/v2.1/{$}": {public: nil, http.MethodGet: showVersion},

		healthPath: {public: nil, http.MethodGet: s.healthz},

		"/v2.1/servers":        {http.MethodGet: s.listServers, http.MethodPost: s.createServers},
		"/v2.1/servers/detail": {http.MethodGet: s.detailServers},
		"/v2.1/servers/{id}":   {http.MethodGet: s.showServer, http.MethodDelete: s.deleteServer},

		"/v2.1/servers/{id}/action":     {http.MethodPost: s.act},
		"/v2.1/servers/{id}/migrations": {http.MethodGet: admin(s.serverMigrations)},
		"/v2.1/os-migrations":           {http.MethodGet: admin(s.listMigrations)},
		"/v2.1/os-services":             {http.MethodGet: admin(s.listServices)},
		"/v2.1/os-services/force-down":  {http.MethodPut: admin(s.forceDown)},
		"/v2.1/os-services/{service}":   {http.MethodPut: admin(s.updateService)},

		"/v2.1/flavors":        {http.MethodGet: s.listFlavors, http.MethodPost: admin(s.createFlavor)},
		"/v2.1/flavors/detail": {http.MethodGet: s.detailFlavors},
		"/v2.1/flavors/{id}": {http.MethodGet: s.showFlavor, http.MethodPut: admin(s.describeFlavor),
			http.MethodDelete: admin(s.deleteFlavor)},
		"/v2.1/flavors/{id}/os-extra_specs": {http.MethodGet: s.listExtraSpecs,
			http.MethodPost: admin(s.createExtraSpecs)},
		"/v2.1/flavors/{id}/os-extra_specs/{key}": {http.MethodGet: s.showExtraSpec, http.MethodPut: admin(s.putExtraSpec),
			http.MethodDelete: admin(s.deleteExtraSpec)},

		"/berth/v1/servers/{id}/why": {http.MethodGet: s.why},
		"/berth/v1/hosts":            {http.MethodGet: service(s.listHosts)},
		"/berth/v1/hosts/{host}": {http.MethodPut: service(s.putReport),
			http.MethodDelete: admin(s.forgetHost)},
		"/berth/v1/hosts/{host}/allocations": {http.MethodGet: admin(s.hostAllocations),
			http.MethodPost: admin(s.healHost)},
		"/berth/v1/hosts/{host}/down": {http.MethodPut: admin(s.hostDown),
			http.MethodDelete: admin(s.hostUp)},
		"/berth/v1/hosts/{host}/devices/{address}/clean": {http.MethodPost: admin(s.cleanDevice)},
		"/berth/v1/hosts/{host}/assignments":             {http.MethodGet: service(s.watch)},
		"/berth/v1/hosts/{host}/guests/{server}":         {http.MethodPut: service(s.putGuest)},
		"/berth/v1/devices":                              {http.MethodGet: service(s.listDevices)},
	}
}

// ServeHTTP gives the request an id, removes the project id from its path, and recovers from panics.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := "req-" + uuid.NewString()
	w.Header().Set("X-Compute-Request-Id", id)
	w.Header().Set("X-Openstack-Request-Id", id)
	out := &responseWriter{ResponseWriter: w}
	defer s.recovered(out, r, id)
	s.mux.ServeHTTP(out, withoutProject(r))
}

// projectKey is the context key of the project id that withoutProject has removed from the path.
type projectKey struct{}

// withoutProject changes /v2.1/{project_id}/servers/… to /v2.1/servers/…: until 2.18 the API has the project in its
// paths.
func withoutProject(r *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/v2.1/")
	project, tail, two := strings.Cut(rest, "/")
	resource, _, _ := strings.Cut(tail, "/")
	if !ok || !two || isResource(project) || !isResource(resource) {
		return r
	}
	short, err := r.URL.Parse("/v2.1/" + tail)
	if err != nil {
		return r
	}
	if project, err = url.PathUnescape(project); err != nil {
		return r
	}
	short.RawQuery = r.URL.RawQuery
	r = r.Clone(context.WithValue(r.Context(), projectKey{}, project))
	r.URL = short
	return r
}

func isResource(segment string) bool {
	return slices.Contains([]string{"servers", "flavors", "os-migrations", "os-services"}, segment)
}

// randomBytes returns 16 random bytes.
func randomBytes() (b [16]byte) {
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return b
}
