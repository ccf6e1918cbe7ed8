// Package server is the HTTP server of compute: the Compute API of api/compute, and the host API of api/host.
//
// Handlers read requests, call the store and the conductor, and write responses; they decide nothing about servers.
// Each resource has its file. Package api/edge receives the requests; what it needs of this API is in http_routes.go
// (the table of paths and policy rules), request_checks.go (the checks and their order) and error_responses.go.
// request_and_response.go has the type of one request; handler_dependencies.go declares what the handlers need, and the
// options of the server.
package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/request"
)

// New returns the handler. It starts nothing.
func New(o Options) http.Handler {
	if o.Authenticate == nil {
		o.Authenticate = identity.NoAuth2
	}
	if o.Strategy == "" {
		o.Strategy = noAuth2
	}
	if o.Enforcer == nil {
		o.Enforcer = policies.Default()
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
	s := newServer(o)
	return edge.New(edge.API[*request.Call]{
		Options: edge.Options{Authenticate: o.Authenticate, Challenge: o.Challenge, Enforcer: o.Enforcer, CORS: o.CORS,
			ProxyHeaders: o.ProxyHeaders, Log: o.Log, Now: o.Now},
		Bodies: rest.NewBodyBudget(request.BodyBudget, request.MaxReport), Metrics: edge.NewMetrics("berth_compute_"),
		IDHeaders: []string{"X-Compute-Request-Id", "X-Openstack-Request-Id"},
		Routes:    s.routes(), HeadIsGet: true, Escaped: true,
		NewCall: func() *request.Call { return &request.Call{Strategy: o.Strategy} },
		Prepare: (*request.Call).RemoveProject, Checks: request.Checks(o.Store.Available), Refuse: (*request.Call).Refuse,
		Encode: (*request.Call).Encode,
		Health: edge.Health{Check: s.checkHealth},
	})
}

// newServer connects the handlers.
func newServer(o Options) *server {
	lookups := request.NewLookups(o.Store, o.Conductor, o.Strategy)
	return &server{Options: o, Lookups: lookups,
		catalog: &catalog.Handlers{FlavorOptions: o.FlavorOptions, Store: o.Store, Images: o.Images != nil, Now: o.Now,
			NewID: o.NewID},
		consoles: &consoles.Handlers{Lookups: lookups, Log: o.Log, Heartbeat: o.Heartbeat, Stop: o.Stop}}
}
