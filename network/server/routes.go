package server

import (
	"net/http"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/server/resources"
)

// routes returns the paths of the APIs.
func routes(service *request.Service, feed *eventstream.Feed) []edge.Route[*request.Call] {
	all := []edge.Route[*request.Call]{
		{Path: "/", Public: true, Methods: request.Methods{http.MethodGet: {Handle: showVersions}}},
		{Path: "/v2.0", Public: true, Methods: request.Methods{http.MethodGet: {Handle: showVersion}}},
		{Path: "/v2.0/extensions", Methods: request.Methods{http.MethodGet: {Handle: listExtensions}}},
		{Path: "/v2.0/extensions/{alias}", Methods: request.Methods{http.MethodGet: {Handle: showExtension}}},
	}
	all = append(all, resources.Routes(service)...)
	all = append(all, eventRoutes(feed)...)
	return append(all, absentRoutes()...)
}

// absent are collections of Neutron that Berth does not have, with what they are for.
var absent = map[string]string{
	"routers": "routers", "floatingips": "floating IPs", "address-scopes": "address scopes", "trunks": "trunks",
	"metering/metering-labels": "metering", "metering/metering-label-rules": "metering",
	"flavors":  "flavors of services",
	"log/logs": "logs of security groups", "network_segment_ranges": "segment ranges", "local_ips": "local IPs",
	"address-groups": "address groups", "ndp_proxies": "NDP proxies", "lbaas/loadbalancers": "load balancers",
	"vpn/vpnservices": "VPN services", "fwaas/firewall_groups": "firewalls", "bgpvpn/bgpvpns": "BGP VPNs",
	"default-security-group-rules": "templates for the rules of new security groups",
}

// absentRoutes answer with 404 and a sentence for collections that Berth does not have.
func absentRoutes() (all []edge.Route[*request.Call]) {
	for path, what := range absent {
		refuse := func(*request.Call) error {
			return fault.New(fault.NotFound, "Berth's network service has no %s; use Neutron if the cloud needs them",
				what).
				WithCode("HTTPNotFound")
		}
		every := request.Methods{http.MethodGet: {Handle: refuse}, http.MethodPost: {Handle: refuse},
			http.MethodPut: {Handle: refuse}, http.MethodDelete: {Handle: refuse}}
		for _, rest := range []string{"", "/{id}", "/{id}/{action}"} {
			all = append(all, edge.Route[*request.Call]{Path: "/v2.0/" + path + rest, Methods: every})
		}
	}
	return all
}

// showVersions is GET /: the versions of the API.
func showVersions(c *request.Call) error {
	return c.WriteJSON(http.StatusOK, map[string]any{"versions": []any{map[string]any{"id": "v2.0", "status": "CURRENT",
		"links": []any{map[string]any{"rel": "self", "href": c.BaseURL() + "/v2.0/"}}}}})
}

// showVersion is GET /v2.0: the resources of the API.
func showVersion(c *request.Call) error {
	var list []any
	for _, path := range []string{"networks", "subnets", "subnetpools", "ports", "segments", "rbac-policies",
		"security-groups", "security-group-rules", "agents", "quotas", "extensions"} {
		list = append(list, map[string]any{"name": strings.TrimSuffix(path, "s"), "collection": path,
			"links": []any{map[string]any{"rel": "self", "href": c.BaseURL() + "/v2.0/" + path}}})
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"resources": list})
}
