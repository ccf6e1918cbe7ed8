// Package server is the HTTP server of the network service: the Networking API of api/network, and the API for Berth's
// own agents.
//
// The handlers are in packages below this one. From the bottom to the top:
//
//	request    the call, errors, and the handlers of collections: what resources share
//	resources  one file for each resource
//
// This package has the options, the versions and extensions of the API, the events, and the table of all routes.
package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/policies"
	"github.com/openberth/berth/network/server/request"
)

// Options are what a server needs. Operations must be set.
type Options struct {
	Operations *operations.Service
	Feed       *eventstream.Feed // NewFeed; nil: there are no events
	edge.Options
}

// New returns the handler. It starts nothing.
func New(o Options) http.Handler {
	o.Options = o.WithDefaults(policies.Default())
	o.Metrics = edge.NewMetrics("berth_network_")
	watchState(o.Metrics, o.Operations)
	service := &request.Service{Ops: o.Operations, Strategy: o.Strategy, Now: o.Now}
	return edge.New(edge.API[*request.Call]{
		Options: o.Options, Bodies: rest.NewBodyBudget(8*request.MaxBody, request.MaxBody), Style: request.Style,
		Database:  o.Operations.Store,
		IDHeaders: []string{"X-Openstack-Request-Id"}, Routes: routes(service, o.Feed), HeadIsGet: true, Escaped: true,
		NewCall: func() *request.Call { return &request.Call{Service: service} }, Prepare: (*request.Call).RemoveSuffix,
		Checks: []func(*request.Call) error{(*request.Call).CheckRequestLine, (*request.Call).CheckDatabase,
			(*request.Call).CheckRoute,
			(*request.Call).Authenticate, (*request.Call).CheckUser, (*request.Call).CheckMethod,
			(*request.Call).CheckPolicy},
		Refuse: (*request.Call).Refuse, Encode: (*request.Call).Encode,
	})
}
