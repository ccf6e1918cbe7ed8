package hosts

import "github.com/openberth/berth/compute/server/request"

// Routes returns the paths of the package.
func Routes(s *Handlers) request.Routes {
	return request.Join(reportRoutes(s), guestRoutes(s), assignmentRoutes(s), accountRoutes(s), downRoutes(s),
		listRoutes(s), cleanRoutes(s), disabledRoutes(s), allocationRoutes(s), drainRoutes(s), headroomRoutes(s),
		portRoutes(s), differenceRoutes(s))
}
