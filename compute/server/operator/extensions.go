package operator

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// extensionRoutes returns the paths of extensions, of which there are none: the API has microversions instead.
func extensionRoutes() request.Routes {
	return request.Routes{
		"/v2.1/extensions": {http.MethodGet: request.Guarded(policies.ListExtensions, request.Empty("extensions"))},
		"/v2.1/extensions/{alias}": {
			http.MethodGet: request.Guarded(policies.ListExtensions, func(c *request.Call) error {
				return fault.New(fault.NotFound, "there is no extension %s; the API has microversions instead",
					edge.Clip(c.R.PathValue("alias")))
			}),
		},
	}
}
