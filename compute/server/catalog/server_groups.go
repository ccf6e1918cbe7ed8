package catalog

import (
	"net/http"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

const noServerGroups = "Berth has no server groups; restrict servers to hosts with traits in the flavor"

// serverGroupRoutes returns the paths of server groups, of which there are none.
func serverGroupRoutes() request.Routes {
	return request.Routes{
		"/v2.1/os-server-groups": {
			http.MethodGet:  request.Guarded(policies.ListServerGroups, request.Empty("server_groups")),
			http.MethodPost: request.Guarded(policies.CreateServerGroup, request.Refused(noServerGroups)),
		},
		"/v2.1/os-server-groups/{id}": {
			http.MethodGet:    request.Guarded(policies.ShowServerGroup, request.Refused(noServerGroups)),
			http.MethodDelete: request.Guarded(policies.DeleteServerGroup, request.Refused(noServerGroups)),
		},
	}
}
