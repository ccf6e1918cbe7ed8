// Package resources has the handlers of the resources of the Networking API, and of the API for Berth's own agents. Each
// resource has its file, with its attributes, its handlers and its views. Handlers decide nothing about networks and
// ports: package operations does.
package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
)

// handlers are the handlers of networks, subnets, segments, ports, QoS policies and agents. Other resources have types
// of their own.
type handlers struct{ *service }

// resourceRoutes returns the paths of all resources.
func resourceRoutes(service *service) (all []edge.Route[*call]) {
	s := handlers{service}
	var shared, ports []edge.Route[*call]
	mount(&shared, "/v2.0/networks", s.networks())
	mount(&shared, "/v2.0/subnets", s.subnets())
	mount(&shared, "/v2.0/subnetpools", pools{s}.collection())
	mount(&ports, "/v2.0/ports", s.ports())
	mount(&all, "/v2.0/network-ip-availabilities", s.ipAvailabilities())
	mount(&shared, "/v2.0/segments", s.segments())
	mount(&all, "/v2.0/rbac-policies", rbac{s}.collection())
	mount(&shared, "/v2.0/qos/policies", s.qosPolicies())
	mount(&shared, "/v2.0/security-groups", groups{s}.collection())
	mount(&shared, "/v2.0/security-group-rules", groups{s}.rules())
	mount(&all, "/v2.0/agents", s.agents())
	shared = append(append(shared, s.ruleRoutes()...), s.tagRoutes()...)
	all = append(all, withShares(shared)...)
	// A port is never shared itself. A new one has a network that may be shared.
	all = append(all, withShares(ports, http.MethodPost)...)
	all = append(all, bindings{s}.routes()...)
	all = append(all, groups{s}.decisionRoutes()...)
	all = append(all, quotas{s}.routes()...)
	all = append(all, s.agentRoutes()...)
	return all
}
