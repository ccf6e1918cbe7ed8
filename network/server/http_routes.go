package server

import (
	"net/http"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/network/policies"
)

// method is one method of a path, and methods are all of them.
type (
	method  = edge.Method[*call]
	methods = map[string]method
)

// removeSuffix removes the suffix .json, which older clients append to paths, and a slash at the end.
func (c *call) removeSuffix() {
	path := strings.TrimSuffix(c.R.URL.Path, ".json")
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if path != c.R.URL.Path {
		u := *c.R.URL
		u.Path, u.RawPath = path, ""
		r := *c.R
		r.URL = &u
		c.R = &r
	}
}

// routes returns the paths of the APIs.
func (s *server) routes() []edge.Route[*call] {
	all := []edge.Route[*call]{
		{Path: "/", Public: true, Methods: methods{http.MethodGet: {Handle: showVersions}}},
		{Path: "/v2.0", Public: true, Methods: methods{http.MethodGet: {Handle: showVersion}}},
		{Path: "/v2.0/extensions", Methods: methods{http.MethodGet: {Handle: listExtensions}}},
		{Path: "/v2.0/extensions/{alias}", Methods: methods{http.MethodGet: {Handle: showExtension}}},
	}
	s.mount(&all, "/v2.0/networks", s.networks())
	s.mount(&all, "/v2.0/subnets", s.subnets())
	s.mount(&all, "/v2.0/ports", s.ports())
	s.mount(&all, "/v2.0/segments", s.segments())
	s.mount(&all, "/v2.0/qos/policies", s.qosPolicies())
	s.mount(&all, "/v2.0/agents", s.agents())
	all = append(all, s.ruleRoutes()...)
	all = append(all, bindings{s}.routes()...)
	all = append(all, s.tagRoutes()...)
	all = append(all, quotas{s}.routes()...)
	all = append(all, s.agentRoutes()...)
	return all
}

// agentRoutes returns the paths for Berth's own agents.
func (s *server) agentRoutes() []edge.Route[*call] {
	return []edge.Route[*call]{
		{Path: "/berth/v1/network-agents/{host}/{type}", Methods: methods{
			http.MethodPut: {Spec: edge.Spec{Rule: policies.ReportAgent, Quiet: true}, Handle: s.byAgent(s.reportAgent)}}},
		{Path: "/berth/v1/hosts/{host}/ports", Methods: methods{
			http.MethodGet: {Spec: edge.Spec{Rule: policies.ReadPorts, Quiet: true}, Handle: s.byAgent(s.hostPorts)}}},
		{Path: "/berth/v1/hosts/{host}/account", Methods: methods{
			http.MethodPut: {Spec: edge.Spec{Rule: policies.BindHost}, Handle: s.bindHost}}},
	}
}

// showVersions is GET /: the versions of the API.
func showVersions(c *call) error {
	rest.WriteJSON(c.W, http.StatusOK, map[string]any{"versions": []any{map[string]any{"id": "v2.0", "status": "CURRENT",
		"links": []any{map[string]any{"rel": "self", "href": c.BaseURL() + "/v2.0/"}}}}})
	return nil
}

// showVersion is GET /v2.0: the resources of the API.
func showVersion(c *call) error {
	var list []any
	for _, path := range []string{"networks", "subnets", "ports", "segments", "agents", "quotas", "extensions"} {
		list = append(list, map[string]any{"name": strings.TrimSuffix(path, "s"), "collection": path,
			"links": []any{map[string]any{"rel": "self", "href": c.BaseURL() + "/v2.0/" + path}}})
	}
	rest.WriteJSON(c.W, http.StatusOK, map[string]any{"resources": list})
	return nil
}
