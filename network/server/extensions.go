package server

import (
	"net/http"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/server/request"
)

// extensions are the extensions of the API that the service has: alias, name.
var extensions = [][2]string{
	{"agent", "agent"},
	{"agent-resources-synced", "Add resources_synced to agents"},
	{"allowed-address-pairs", "Allowed Address Pairs"},
	{"binding", "Port Binding"},
	{"binding-extended", "Port Bindings Extended"},
	{"dns-integration", "DNS Integration"},
	{"external-net", "Neutron external network"},
	{"multi-provider", "Multi Provider Network"},
	{"net-mtu", "Network MTU"},
	{"net-mtu-writable", "Network MTU (writable)"},
	{"network-ip-availability", "Network IP Availability"},
	{"pagination", "Pagination support"},
	{"port-numa-affinity-policy", "Port NUMA affinity policy"},
	{"port-numa-affinity-policy-socket", "Port NUMA affinity policy socket"},
	{"port-resource-request", "Port Resource Request"},
	{"port-resource-request-groups", "Port Resource Request Groups"},
	{"port-security", "Port Security"},
	{"port-security-groups-filtering", "Port Security Groups Filtering"},
	{"project-id", "project_id field enabled"},
	{"provider", "Provider Network"},
	{"qos", "Quality of Service"},
	{"qos-bw-limit-direction", "Direction for QoS bandwidth limit rule"},
	{"qos-bw-minimum-ingress", "Ingress direction for QoS minimum bandwidth rule"},
	{"qos-default", "QoS default policy"},
	{"qos-port-network-policy", "QoS port network policy"},
	{"qos-pps-minimum", "QoS minimum packet rate rule"},
	{"qos-pps-minimum-rule-alias", "Ability to enable pps rule alias"},
	{"qos-rule-type-details", "Details of QoS rule types"},
	{"qos-rules-alias", "Ability to modify QoS rules without policy"},
	{"quota-check-limit", "Quota engine limit check"},
	{"quota_details", "Quota details"},
	{"quotas", "Quota management support"},
	{"rbac-policies", "RBAC Policies"},
	{"rbac-security-groups", "Add security_group type to network RBAC"},
	{"rbac-subnetpool", "Add subnetpool type to RBAC"},
	{"revision-if-match", "If-Match constraints based on revision_number"},
	{"security-group", "security-group"},
	{"security-groups-normalized-cidr", "Normalized CIDR field for security group rules"},
	{"security-groups-shared-filtering", "Security group filtering on the shared field"},
	{"segment", "Segment"},
	{"sorting", "Sorting support"},
	{"standard-attr-description", "standard-attr-description"},
	{"standard-attr-revisions", "Resource revision numbers"},
	{"standard-attr-tag", "Tag support for resources"},
	{"standard-attr-timestamp", "Resource timestamps"},
	{"stateful-security-group", "Stateful security group"},
	{"subnet_allocation", "Subnet Allocation"},
	{"default-subnetpools", "Default Subnetpools"},
	{"subnet-service-types", "Subnet service types"},
}

func extension(alias, name string) map[string]any {
	return map[string]any{"alias": alias, "name": name, "description": name, "updated": "2026-01-01T00:00:00-00:00",
		"links": []any{}}
}

func listExtensions(c *request.Call) error {
	list := []any{}
	for _, e := range extensions {
		list = append(list, extension(e[0], e[1]))
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"extensions": list})
}

func showExtension(c *request.Call) error {
	alias := c.R.PathValue("alias")
	for _, e := range extensions {
		if e[0] == alias {
			return c.WriteJSON(http.StatusOK, map[string]any{"extension": extension(e[0], e[1])})
		}
	}
	return fault.New(fault.NotFound, "Extension with alias %s does not exist", alias).WithCode("ExtensionNotFound")
}
