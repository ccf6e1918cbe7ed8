package actions

import (
	"github.com/openberth/berth/compute/server/request"
)

// Routes returns the paths of the package.
func Routes(s *Handlers) request.Routes {
	return request.Join(actionRoutes(s), migrationRoutes(s), instanceActionRoutes(s))
}
