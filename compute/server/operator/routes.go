package operator

import "github.com/openberth/berth/compute/server/request"

// Routes returns the paths of the package.
func Routes(s *Handlers) request.Routes {
	return request.Join(hypervisorRoutes(s), serviceRoutes(s), osHostRoutes(s), zoneRoutes(s), aggregateRoutes(s),
		agentBuildRoutes(), extensionRoutes())
}
