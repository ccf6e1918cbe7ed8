package operator

import (
	"net/http"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

const noAgentBuilds = "Berth has no builds of guest agents"

// agentBuildRoutes returns the paths of builds of guest agents, of which there are none.
func agentBuildRoutes() request.Routes {
	return request.Routes{
		"/v2.1/os-agents": {
			http.MethodGet:  request.Guarded(policies.ListAgents, request.Empty("agents")),
			http.MethodPost: request.Guarded(policies.CreateAgent, request.Refused(noAgentBuilds)),
		},
		"/v2.1/os-agents/{agent}": {
			http.MethodPut:    request.Guarded(policies.UpdateAgent, request.Refused(noAgentBuilds)),
			http.MethodDelete: request.Guarded(policies.DeleteAgent, request.Refused(noAgentBuilds)),
		},
	}
}
