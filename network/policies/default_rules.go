// Package policies holds the default access policy of the Networking API: Neutron's rules under Neutron's names, and
// Berth's own, which begin with berth:.
//
// The defaults permit:
//
//	                                       owner   others             service   admin
//	networks, subnets, ports: read         yes     shared networks    yes       yes, of all projects
//	networks, subnets, ports: change       yes     no                 no        yes
//	QoS policies, subnet pools: read       yes     shared ones        yes       yes
//	subnet pools, RBAC policies: change    yes     no                 no        yes
//	security groups: read                  yes     no                 yes       yes
//	security groups: change                yes     no                 no        yes
//	provider, binding, QoS changes         no      no                 binding   yes
//	resource_request                       no      no                 yes       yes
//	agents                                 no      no                 report    yes
//	events: watch                          own     no                 no        yes, of all projects
//
// Unlike in Neutron, enforce_new_defaults is false by default, because callers of noauth2 have no roles: a caller of
// the project needs no role.
package policies

import (
	"sync"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/policy"
)

// The checks of the defaults.
const (
	admin    = "rule:context_is_admin"
	service  = "rule:service_api or rule:context_is_admin"
	agent    = "rule:agent_api"
	reader   = "rule:project_reader_api or rule:context_is_admin"
	member   = "rule:project_member_api or rule:context_is_admin"
	anybody  = "@"
	shared   = "rule:project_reader_api or rule:context_is_admin or rule:service_api or rule:shared"
	external = "rule:project_reader_api or rule:context_is_admin or rule:service_api or rule:shared or rule:external"
	ofPort   = "rule:project_reader_api or rule:context_is_admin or rule:service_api or rule:network_owner"
	netOwner = "rule:context_is_admin or rule:service_api or rule:network_owner"
	wildcard = "rule:restrict_wildcard"
	ofObject = "rule:project_reader_api or rule:context_is_admin or rule:service_api"
	edit     = "rule:project_member_api or rule:context_is_admin or rule:service_api"
)

// Berth's own rules.
const (
	ReportAgent = "berth:network_agents:report"
	ReadPorts   = "berth:host_ports:read"
	BindHost    = "berth:network_hosts:bind"

	WatchEvents    = "berth:network_events:watch"
	WatchAllEvents = "berth:network_events:watch:all"
)

// rows are the rules by their checks.
var rows = []policy.Row{
	{Check: admin, Names: `create_network:shared create_network:router:external create_network:is_default
		create_network:segments create_network:provider:network_type create_network:provider:physical_network
		create_network:provider:segmentation_id get_network:segments get_network:provider:network_type
		get_network:provider:physical_network get_network:provider:segmentation_id update_network:shared
		update_network:segments update_network:provider:network_type update_network:provider:physical_network
		update_network:provider:segmentation_id update_network:router:external update_network:is_default
		create_segment get_segment update_segment delete_segment create_subnet:segment_id create_subnet:service_types
		get_subnet:segment_id update_subnet:segment_id update_subnet:service_types
		create_policy update_policy delete_policy create_policy_minimum_bandwidth_rule
		update_policy_minimum_bandwidth_rule delete_policy_minimum_bandwidth_rule
		create_policy_minimum_packet_rate_rule update_policy_minimum_packet_rate_rule
		delete_policy_minimum_packet_rate_rule create_policy_bandwidth_limit_rule update_policy_bandwidth_limit_rule
		delete_policy_bandwidth_limit_rule create_policy_dscp_marking_rule update_policy_dscp_marking_rule
		delete_policy_dscp_marking_rule get_agent update_agent delete_agent
		get_network_ip_availability update_quota delete_quota
		berth:network_hosts:bind berth:network_events:watch:all`},
	{Check: service, Names: `get_port:binding:vif_type get_port:binding:vif_details get_port:binding:host_id
		get_port:binding:profile get_port:resource_request create_port:binding:host_id create_port:binding:profile update_port:binding:host_id
		update_port:binding:profile update_port:mac_address
		get_port_binding create_port_binding update_port_binding delete_port_binding activate`},
	{Check: member, Names: `create_network update_network delete_network delete_subnet update_subnet create_port
		delete_port update_port:binding:vnic_type create_port:binding:vnic_type update_network:port_security_enabled
		create_network:port_security_enabled update_port:qos_policy_id update_network:qos_policy_id
		create_security_group update_security_group delete_security_group create_security_group_rule
		delete_security_group_rule update_security_groups_tags update_networks_tags update_subnets_tags update_ports_tags update_policies_tags`},
	{Check: member, Names: `create_rbac_policy update_rbac_policy delete_rbac_policy
		create_subnetpool update_subnetpool delete_subnetpool update_subnetpools_tags`},
	{Check: wildcard, Names: `create_rbac_policy:target_tenant create_rbac_policy:target_project
		update_rbac_policy:target_tenant`},
	{Check: admin, Names: `create_subnetpool:shared create_subnetpool:is_default update_subnetpool:is_default`},
	{Check: edit, Names: `update_port`},
	{Check: shared, Names: `get_security_group get_security_group_rule`},
	{Check: external, Names: `get_network`},
	{Check: ofPort, Names: `get_port`},
	{Check: shared, Names: `get_subnet get_policy get_policy_minimum_bandwidth_rule get_policy_minimum_packet_rate_rule
		get_policy_bandwidth_limit_rule get_policy_dscp_marking_rule`},
	{Check: "rule:context_is_admin or rule:network_owner", Names: `create_subnet`},
	{Check: netOwner, Names: `create_port:mac_address create_port:fixed_ips create_port:fixed_ips:ip_address
		create_port:port_security_enabled create_port:allowed_address_pairs update_port:fixed_ips
		update_port:fixed_ips:ip_address update_port:port_security_enabled update_port:allowed_address_pairs`},
	{Check: "rule:context_is_admin or rule:service_api or rule:network_owner or not rule:network_device",
		Names: `create_port:device_owner update_port:device_owner`},
	{Check: reader, Names: `get_quota berth:network_events:watch`},
	{Check: ofObject, Names: `get_rbac_policy`},
	{Check: shared, Names: `get_subnetpool`},
	{Check: anybody, Names: `get_rule_type get_service_provider get_extension`},
	{Check: agent, Names: `berth:network_agents:report berth:host_ports:read`},
}

// base are the rules to which others refer.
func base() []policy.Rule {
	owner := &policy.Deprecated{Name: "rule:admin_or_owner", Check: "role:admin or project_id:%(project_id)s"}
	return []policy.Rule{
		{Name: "context_is_admin", Check: "role:admin", Description: "An administrator."},
		{Name: "admin_only", Check: "rule:context_is_admin", Description: "An administrator."},
		{Name: "admin_or_owner", Check: "role:admin or project_id:%(project_id)s",
			Description: "An administrator, or a caller of the project of the object."},
		{Name: "owner", Check: "project_id:%(project_id)s", Description: "A caller of the project of the object."},
		{Name: "regular_user", Check: "", Description: "Every caller."},
		{Name: "project_reader_api", Check: "role:reader and project_id:%(project_id)s", Deprecated: owner,
			Description: "A reader of the project of the object."},
		{Name: "project_member_api", Check: "role:member and project_id:%(project_id)s", Deprecated: owner,
			Description: "A member of the project of the object."},
		{Name: "service_api", Check: "role:service", Description: "Another service of the cloud, or an agent."},
		{Name: "agent_api", Check: "role:service or (role:admin and 'noauth2':%(auth_strategy)s)",
			Description: "An agent. With noauth2 an administrator, because such a caller can send any role."},
		{Name: "shared", Check: "True:%(shared)s", Description: "The object is shared."},
		{Name: "external", Check: "True:%(router:external)s", Description: "The network is external."},
		{Name: "network_owner", Check: "project_id:%(network:project_id)s",
			Description: "A caller of the project of the network."},
		{Name: "restrict_wildcard", Check: "not True:%(wildcard)s or rule:context_is_admin",
			Description: "An administrator shares with all projects, others with single ones."},
		{Name: "network_device", Check: "'network':%(owner_kind)s", Description: "The device_owner begins with network:."},
	}
}

// table is the default policy.
var table = policy.Table{Service: "network", Base: base(), Rows: rows}

// Rules returns the defaults, with the base rules that policy files refer to.
func Rules() []policy.Rule { return table.Rules() }

// Has reports whether a rule exists.
func Has(rule string) bool {
	_, has := known()[rule]
	return has
}

var known = sync.OnceValue(table.Checks)

// Default returns an Enforcer of the defaults.
func Default() identity.Enforcer { return identity.Enforcer{Policy: enforcer()} }

var enforcer = table.Defaults()
