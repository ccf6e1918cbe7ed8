package servers

import (
	"net/http"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

// securityGroupRoutes returns the paths of the security groups of a server, of which there are none.
func securityGroupRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/os-security-groups": {
			http.MethodGet: s.EmptyOfServer(policies.ListSecurityGroups, "security_groups"),
		},
	}
}
