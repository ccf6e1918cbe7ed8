package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/compute/server/actions"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/hosts"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/operator"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
)

// server is the server with its handlers, by package.
type server struct {
	store    Store
	catalog  *catalog.Handlers
	consoles *consoles.Handlers
	operator *operator.Handlers
	hosts    *hosts.Handlers
	network  *networking.Handlers
	servers  *servers.Handlers
	actions  *actions.Handlers
	feed     *eventstream.Feed // nil: none
}

// routes returns the paths of the APIs. {…} is one segment.
func (s *server) routes() []edge.Route[*request.Call] {
	var all []edge.Route[*request.Call]
	for _, path := range []string{"/v2.1", "/v2.1/"} {
		all = append(all, edge.Route[*request.Call]{Path: path, Public: true,
			Methods: request.Methods{http.MethodGet: request.Open(showVersion)}})
	}
	for _, path := range []string{"/v2", "/v2/"} {
		all = append(all, edge.Route[*request.Call]{Path: path, Public: true,
			Methods: request.Methods{http.MethodGet: request.Open(showV2)}})
	}
	all = append(all, edge.Route[*request.Call]{Path: "/", Public: true,
		Methods: request.Methods{http.MethodGet: request.Open(showVersions)}})
	all = append(all, consoles.PublicRoutes(s.consoles)...)
	for path, methods := range s.guardedRoutes() {
		all = append(all, edge.Route[*request.Call]{Path: path, Methods: methods})
	}
	return all
}

// guardedRoutes returns the paths that need a token.
func (s *server) guardedRoutes() request.Routes {
	return request.Join(
		catalog.Routes(s.catalog), consoles.Routes(s.consoles), operator.Routes(s.operator), hosts.Routes(s.hosts),
		networking.Routes(s.network), servers.Routes(s.servers), actions.Routes(s.actions), eventRoutes(s.feed))
}
