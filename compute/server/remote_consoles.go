package server

import (
	"net/http"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

const noConsoles = "Berth has no consoles"

// remoteRoutes returns the paths of remote consoles, which Berth does not have.
func (s *server) remoteRoutes() request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/remote-consoles": {
			http.MethodPost: s.RefusedOfServer(policies.CreateConsole, noConsoles),
		},
	}
}
