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

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/policies"
)

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
