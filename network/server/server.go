// Package server is the HTTP server of the network service: the Networking API of api/network, and the API for Berth's
// own agents.
//
// The files, from the bottom to the top: call, style (how objects of requests are read), list_query, collection, one
// file for each resource, errors, routes, server. A collection (collection.go) declares the attributes and functions of
// one resource; the handlers of all collections are the same. Handlers decide nothing about networks and ports: package
// operations does.
package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/policies"
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
	service := &service{ops: o.Operations, strategy: o.Strategy, now: o.Now}
	return edge.New(edge.API[*call]{
		Options: o.Options, Bodies: rest.NewBodyBudget(8*maxBody, maxBody), Style: style,
		Database:  o.Operations.Store,
		IDHeaders: []string{"X-Openstack-Request-Id"}, Routes: routes(service, o.Feed), HeadIsGet: true, Escaped: true,
		NewCall: func() *call { return &call{service: service} }, Prepare: (*call).removeSuffix,
		Checks: []func(*call) error{(*call).CheckRequestLine, (*call).CheckDatabase, (*call).CheckRoute,
			(*call).Authenticate, (*call).CheckUser, (*call).CheckMethod, (*call).checkPolicy},
		Refuse: (*call).refuse, Encode: (*call).encode,
	})
}
