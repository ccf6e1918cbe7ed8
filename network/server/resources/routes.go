package resources

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/server/request"
)

// Routes returns the paths of all resources.
func Routes(service *request.Service) (all []edge.Route[*request.Call]) {
	s := handlers{service}
	var shared, ports []edge.Route[*request.Call]
	request.Mount(&shared, "/v2.0/networks", s.networks())
	request.Mount(&shared, "/v2.0/subnets", s.subnets())
	request.Mount(&shared, "/v2.0/subnetpools", pools{s}.collection())
	request.Mount(&ports, "/v2.0/ports", s.ports())
	request.Mount(&all, "/v2.0/network-ip-availabilities", s.ipAvailabilities())
	request.Mount(&shared, "/v2.0/segments", s.segments())
	request.Mount(&all, "/v2.0/rbac-policies", rbac{s}.collection())
	request.Mount(&shared, "/v2.0/qos/policies", s.qosPolicies())
	request.Mount(&shared, "/v2.0/security-groups", groups{s}.collection())
	request.Mount(&shared, "/v2.0/security-group-rules", groups{s}.rules())
	request.Mount(&all, "/v2.0/agents", s.agents())
	shared = append(append(shared, s.ruleRoutes()...), s.tagRoutes()...)
	all = append(all, request.WithShares(shared)...)
	// A port is never shared itself. A new one has a network that may be shared.
	all = append(all, request.WithShares(ports, http.MethodPost)...)
	all = append(all, bindings{s}.routes()...)
	all = append(all, groups{s}.decisionRoutes()...)
	all = append(all, quotas{s}.routes()...)
	all = append(all, s.agentRoutes()...)
	return all
}
