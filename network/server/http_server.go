// Package server is the HTTP server of the network service: the Networking API of api/network, and the API for Berth's
// own agents.
//
// A collection (collections.go) declares the attributes and functions of one resource; the handlers of all collections
// are the same. Handlers decide nothing about networks and ports: package operations does.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/policies"
)

// Options are what a server needs. Operations must be set; the others have defaults.
type Options struct {
	Operations   *operations.Service
	Authenticate identity.Authenticator // identity.NoAuth2
	Strategy     string                 // [api] auth_strategy; "": noauth2
	Challenge    string                 // the WWW-Authenticate header of a 401 response; empty: none
	Enforcer     edge.Enforcer          // the access policy: policies.Default()
	CORS         cors.Options           // [cors]; without AllowedOrigin no CORS headers are sent
	ProxyHeaders bool                   // [oslo_middleware] enable_proxy_headers_parsing: they are trusted
	Log          *slog.Logger           // slog.Default()
	Now          func() time.Time       // time.Now
}

type server struct {
	Options
	ops *operations.Service
}

// call is one request and its response.
type call struct {
	edge.Call
	srv *server
}

// New returns the handler. It starts nothing.
func New(o Options) http.Handler {
	if o.Authenticate == nil {
		o.Authenticate = identity.NoAuth2
	}
	if o.Strategy == "" {
		o.Strategy = "noauth2"
	}
	if o.Enforcer == nil {
		o.Enforcer = policies.Default()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &server{Options: o, ops: o.Operations}
	return edge.New(edge.API[*call]{
		Authenticate: o.Authenticate, Challenge: o.Challenge, Enforcer: o.Enforcer, CORS: o.CORS,
		ProxyHeaders: o.ProxyHeaders, Bodies: rest.NewBodyBudget(8*maxBody, maxBody), Log: o.Log,
		Metrics: edge.NewMetrics("berth_network_"), Now: o.Now,
		IDHeaders: []string{"X-Openstack-Request-Id"},
		Routes:    s.routes(), HeadIsGet: true, Escaped: true,
		NewCall: func() *call { return &call{srv: s} }, Prepare: (*call).removeSuffix,
		Checks: []func(*call) error{(*call).CheckRequestLine, (*call).checkStore, (*call).CheckRoute, (*call).Authenticate,
			(*call).checkUser, (*call).CheckMethod, (*call).checkPolicy},
		Refuse: (*call).refuse, Encode: (*call).encode, Health: edge.Health{Check: s.checkHealth},
	})
}

func (s *server) onAgents() operations.Agents     { return operations.Agents{Service: s.ops} }
func (s *server) onBindings() operations.Bindings { return operations.Bindings{Service: s.ops} }
func (s *server) onPolicies() operations.Policies { return operations.Policies{Service: s.ops} }

// checkStore refuses all requests after the database has lost its file.
func (c *call) checkStore() error { return c.srv.ops.Store.Available() }

// checkUser refuses a caller without a name, who would see the objects without a project.
func (c *call) checkUser() error {
	if c.Public() || c.Who.User != "" {
		return nil
	}
	return c.RefuseCaller(fault.New(fault.Forbidden, "", "X-Auth-Token has no user; send user:project, for example admin"))
}

// checkPolicy checks the rule of a method that needs no object.
func (c *call) checkPolicy() error { return c.Authorize(c.Spec.Rule, c.target(c.Who.Project, nil)) }

// target returns the attributes of an object for the policy. Those that rules of every kind refer to are always set.
func (c *call) target(project string, more map[string]any) map[string]any {
	t := map[string]any{"project_id": project, "tenant_id": project, "shared": false, "router:external": false,
		"network:project_id": nil, "network:tenant_id": nil, "owner_kind": "", "auth_strategy": c.srv.Strategy}
	for key, value := range more {
		t[key] = value
	}
	return t
}

// checkHealth returns a sentence for clients, and its cause for the log.
func (s *server) checkHealth(ctx context.Context) (reason string, cause error) {
	if err := s.ops.Store.Available(); err != nil {
		return "The database's file was deleted, moved or replaced; the service stops.", err
	}
	patience := edge.HealthTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	if err := s.ops.Store.CheckWrites(patience); err != nil {
		return "The database takes no writes: " + fault.TextOf(err) + ".", errors.Unwrap(err)
	}
	return "", nil
}
