package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/request"
)

// routes returns the paths of the APIs. {…} is one segment.
func (s *server) routes() []edge.Route[*request.Call] {
	var all []edge.Route[*request.Call]
	for _, path := range []string{"/v2.1", "/v2.1/"} {
		all = append(all, edge.Route[*request.Call]{Path: path, Public: true,
			Methods: request.Methods{http.MethodGet: request.Open(showVersion)}})
	}
	all = append(all, edge.Route[*request.Call]{Path: "/", Public: true,
		Methods: request.Methods{http.MethodGet: request.Open(showVersions)}})
	for path, methods := range s.guardedRoutes() {
		all = append(all, edge.Route[*request.Call]{Path: path, Methods: methods})
	}
	return all
}

// guardedRoutes returns the paths that need a token.
func (s *server) guardedRoutes() request.Routes {
	return request.Join(
		catalog.Routes(s.catalog), consoles.Routes(s.consoles),
		s.hypervisorRoutes(), s.serviceRoutes(), s.osHostRoutes(), s.zoneRoutes(), s.aggregateRoutes(),
		s.agentBuildRoutes(),
		s.serverRoutes(), s.actionRoutes(), s.whyRoutes(), s.migrationRoutes(), s.metadataRoutes(), s.tagRoutes(),
		s.instanceActionRoutes(), s.interfaceRoutes(), s.volumeRoutes(), s.securityGroupRoutes(), s.eventRoutes(),
		s.reportRoutes(), s.guestRoutes(), s.assignmentRoutes(), s.accountRoutes(), s.downRoutes(), s.listRoutes(),
		s.cleanRoutes(), s.allocationRoutes(), s.drainRoutes(), s.headroomRoutes(), s.portRoutes())
}
