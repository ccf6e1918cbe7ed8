package consoles

import (
	"net/http"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

// NoRemote is why remote consoles are refused.
const NoRemote = "Berth has no consoles"

// remoteRoutes returns the paths of remote consoles, which Berth does not have.
func remoteRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/remote-consoles": {
			http.MethodPost: s.RefusedOfServer(policies.CreateConsole, NoRemote),
		},
	}
}
