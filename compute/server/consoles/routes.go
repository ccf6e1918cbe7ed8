package consoles

import "github.com/openberth/berth/compute/server/request"

// Routes returns the paths of the package.
func Routes(s *Handlers) request.Routes {
	return request.Join(outputRoutes(s), sessionRoutes(s), remoteRoutes(s), diagnosticRoutes(s))
}
