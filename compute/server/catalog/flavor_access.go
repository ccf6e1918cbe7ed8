package catalog

import (
	"net/http"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

const noAccess = "Berth has no access lists of flavors; a flavor is public, or only admins use it"

// flavorAccessRoutes returns the paths of access lists of flavors, which Berth does not have.
func flavorAccessRoutes() request.Routes {
	return request.Routes{
		"/v2.1/flavors/{id}/os-flavor-access": {
			http.MethodGet: request.Guarded(policies.ListFlavorAccess, request.Refused(noAccess)),
		},
		"/v2.1/flavors/{id}/action": {
			http.MethodPost: request.Guarded(policies.AddFlavorAccess, request.Refused(noAccess)),
		},
	}
}
