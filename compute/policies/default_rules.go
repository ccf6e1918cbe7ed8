// Package policies holds the default access policy of the Compute API and the host API: Nova's rules under Nova's
// names, and Berth's own, which begin with berth:.
//
// The defaults permit:
//
//	                                    owner   service   admin
//	own servers: read, create, act      yes     no        yes, of all projects
//	own key pairs                       yes     yes       yes, of all users
//	own quotas, limits, usage: read     yes     no        yes, of all projects
//	flavors, zone: read                 yes     yes       yes
//	flavors, services, moves, hosts     no      no        yes
//	hosts and devices: list             no      yes       yes
//	host API of agents                  no      yes       with noauth2
//
// An owner is a caller whose token is for the project of the server. As in Nova, [oslo_policy] enforce_new_defaults
// requires the role reader or member in addition. Unlike in Nova it is false by default, because callers of noauth2
// have no roles.
package policies

import (
	"slices"
	"sync"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/policy"
)

// The rules of the Compute API, with Nova's names.
const (
	ListServers          = "os_compute_api:servers:index"
	ListServersOfAll     = "os_compute_api:servers:index:get_all_tenants"
	DetailServers        = "os_compute_api:servers:detail"
	DetailServersOfAll   = "os_compute_api:servers:detail:get_all_tenants"
	ShowServer           = "os_compute_api:servers:show"
	CreateServer         = "os_compute_api:servers:create"
	DeleteServer         = "os_compute_api:servers:delete"
	ForceDeleteServer    = "os_compute_api:os-deferred-delete:force"
	StartServer          = "os_compute_api:servers:start"
	StopServer           = "os_compute_api:servers:stop"
	RebootServer         = "os_compute_api:servers:reboot"
	RebuildServer        = "os_compute_api:servers:rebuild"
	ResizeServer         = "os_compute_api:servers:resize"
	ConfirmResize        = "os_compute_api:servers:confirm_resize"
	RevertResize         = "os_compute_api:servers:revert_resize"
	MigrateServer        = "os_compute_api:os-migrate-server:migrate"
	LiveMigrateServer    = "os_compute_api:os-migrate-server:migrate_live"
	EvacuateServer       = "os_compute_api:os-evacuate"
	ShelveServer         = "os_compute_api:os-shelve:shelve"
	OffloadServer        = "os_compute_api:os-shelve:shelve_offload"
	UnshelveServer       = "os_compute_api:os-shelve:unshelve"
	ResetServer          = "os_compute_api:os-admin-actions:reset_state"
	ListServerMigrations = "os_compute_api:servers:migrations:index"
	ListMigrations       = "os_compute_api:os-migrations:index"
	ListServices         = "os_compute_api:os-services:list"
	UpdateService        = "os_compute_api:os-services:update"
	CreateFlavor         = "os_compute_api:os-flavor-manage:create"
	UpdateFlavor         = "os_compute_api:os-flavor-manage:update"
	DeleteFlavor         = "os_compute_api:os-flavor-manage:delete"
	ListExtraSpecs       = "os_compute_api:os-flavor-extra-specs:index"
	ShowExtraSpec        = "os_compute_api:os-flavor-extra-specs:show"
	CreateExtraSpecs     = "os_compute_api:os-flavor-extra-specs:create"
	UpdateExtraSpec      = "os_compute_api:os-flavor-extra-specs:update"
	DeleteExtraSpec      = "os_compute_api:os-flavor-extra-specs:delete"
)

// Berth's own rules.
const (
	ExplainServer   = "berth:servers:why"
	ListHosts       = "berth:hosts:list"
	ReportHost      = "berth:hosts:report"
	ForgetHost      = "berth:hosts:forget"
	ShowHeadroom    = "berth:headroom:show"
	PlanDrain       = "berth:hosts:drain:plan"
	AuditHost       = "berth:hosts:audit"
	HealHost        = "berth:hosts:heal"
	HealPorts       = "berth:ports:heal"
	SetHostDown     = "berth:hosts:down"
	SetHostUp       = "berth:hosts:up"
	BindHost        = "berth:hosts:bind"
	UnbindHost      = "berth:hosts:unbind"
	ReadAssignments = "berth:hosts:assignments"
	ReportGuest     = "berth:guests:report"
	ListDevices     = "berth:devices:list"
	CleanDevice     = "berth:devices:clean"
)

var guards = []guard{
	{ListServers, reader, "GET /servers"},
	{ListServersOfAll, admin, "GET /servers?all_tenants=1"},
	{DetailServers, reader, "GET /servers/detail"},
	{DetailServersOfAll, admin, "GET /servers/detail?all_tenants=1"},
	{ShowServer, reader, "GET /servers/{id}"},
	{CreateServer, member, "POST /servers"},
	{DeleteServer, member, "DELETE /servers/{id}"},
	{ForceDeleteServer, member, "POST /servers/{id}/action (forceDelete)"},
	{StartServer, member, "POST /servers/{id}/action (os-start)"},
	{StopServer, member, "POST /servers/{id}/action (os-stop)"},
	{RebootServer, member, "POST /servers/{id}/action (reboot)"},
	{RebuildServer, member, "POST /servers/{id}/action (rebuild)"},
	{ResizeServer, member, "POST /servers/{id}/action (resize)"},
	{ConfirmResize, member, "POST /servers/{id}/action (confirmResize)"},
	{RevertResize, member, "POST /servers/{id}/action (revertResize)"},
	{MigrateServer, admin, "POST /servers/{id}/action (migrate)"},
	{LiveMigrateServer, admin, "POST /servers/{id}/action (os-migrateLive)"},
	{EvacuateServer, admin, "POST /servers/{id}/action (evacuate)"},
	{ShelveServer, member, "POST /servers/{id}/action (shelve)"},
	{OffloadServer, admin, "POST /servers/{id}/action (shelveOffload)"},
	{UnshelveServer, member, "POST /servers/{id}/action (unshelve)"},
	{ResetServer, admin, "POST /servers/{id}/action (os-resetState)"},
	{ListServerMigrations, admin, "GET /servers/{id}/migrations"},
	{ListMigrations, admin, "GET /os-migrations"},
	{ListServices, admin, "GET /os-services"},
	{UpdateService, admin, "PUT /os-services/{id}, PUT /os-services/force-down"},
	{CreateFlavor, admin, "POST /flavors"},
	{UpdateFlavor, admin, "PUT /flavors/{id}"},
	{DeleteFlavor, admin, "DELETE /flavors/{id}"},
	{ListExtraSpecs, reader, "GET /flavors/{id}/os-extra_specs"},
	{ShowExtraSpec, reader, "GET /flavors/{id}/os-extra_specs/{key}"},
	{CreateExtraSpecs, admin, "POST /flavors/{id}/os-extra_specs"},
	{UpdateExtraSpec, admin, "PUT /flavors/{id}/os-extra_specs/{key}"},
	{DeleteExtraSpec, admin, "DELETE /flavors/{id}/os-extra_specs/{key}"},
	{ExplainServer, reader, "GET /berth/v1/servers/{id}/why"},
	{ListHosts, service, "GET /berth/v1/hosts"},
	{ReportHost, agent, "PUT /berth/v1/hosts/{host}"},
	{ForgetHost, admin, "DELETE /berth/v1/hosts/{host}"},
	{ShowHeadroom, admin, "GET /berth/v1/headroom"},
	{PlanDrain, admin, "GET /berth/v1/hosts/{host}/drain"},
	{AuditHost, admin, "GET /berth/v1/hosts/{host}/allocations"},
	{HealHost, admin, "POST /berth/v1/hosts/{host}/allocations"},
	{HealPorts, admin, "POST /berth/v1/ports/heal"},
	{SetHostDown, admin, "PUT /berth/v1/hosts/{host}/down"},
	{SetHostUp, admin, "DELETE /berth/v1/hosts/{host}/down"},
	{BindHost, admin, "PUT /berth/v1/hosts/{host}/account"},
	{UnbindHost, admin, "DELETE /berth/v1/hosts/{host}/account"},
	{ReadAssignments, agent, "GET /berth/v1/hosts/{host}/assignments"},
	{ReportGuest, agent, "PUT /berth/v1/hosts/{host}/guests/{server}"},
	{ListDevices, service, "GET /berth/v1/devices"},
	{CleanDevice, admin, "POST /berth/v1/hosts/{host}/devices/{address}/clean"},
}

// Rules returns the defaults, with the base rules of Nova that policy files refer to.
func Rules() []policy.Rule {
	owner := &policy.Deprecated{Name: "rule:admin_or_owner", Check: "role:admin or project_id:%(project_id)s"}
	rules := []policy.Rule{
		{Name: "context_is_admin", Check: "role:admin", Description: "An administrator."},
		{Name: "admin_api", Check: "role:admin", Description: "An administrator."},
		{Name: "admin_or_owner", Check: "role:admin or project_id:%(project_id)s",
			Description: "An administrator, or a caller of the project in question."},
		{Name: "project_reader_api", Check: "role:reader and project_id:%(project_id)s", Deprecated: owner,
			Description: "A reader of the project in question."},
		{Name: "project_member_api", Check: "role:member and project_id:%(project_id)s", Deprecated: owner,
			Description: "A member of the project in question."},
		{Name: "project_reader_or_admin", Check: "rule:project_reader_api or rule:context_is_admin", Deprecated: owner,
			Description: "A reader of the project in question, or an administrator."},
		{Name: "project_member_or_admin", Check: "rule:project_member_api or rule:context_is_admin", Deprecated: owner,
			Description: "A member of the project in question, or an administrator."},
		{Name: "service_api", Check: "role:service", Description: "Another service of the cloud, or an agent."},
		{Name: "service_or_admin", Check: "role:service or role:admin",
			Description: "Another service of the cloud, an agent, or an administrator."},
		{Name: "agent_api", Check: "role:service or (role:admin and 'noauth2':%(auth_strategy)s)",
			Description: "An agent. With noauth2 an administrator, because such a caller can send any role."},
	}
	for _, g := range slices.Concat(guards, guardsBesideServers) {
		rules = append(rules, policy.Rule{Name: g.name, Check: g.check, Description: g.what})
	}
	return rules
}

// Needs returns which role a caller needs by default, for an error text; empty: none, but the project of the server.
func Needs(rule string) string {
	for _, g := range slices.Concat(guards, guardsBesideServers) {
		switch {
		case g.name != rule:
		case g.check == admin:
			return "the role admin"
		case g.check == service:
			return "the role service or admin"
		case g.check == agent:
			return "the role service"
		}
	}
	return ""
}

// Default returns an Enforcer of the defaults.
var Default = sync.OnceValue(func() identity.Enforcer {
	e, err := policy.New(Rules(), policy.Options{})
	if err != nil {
		panic("compute/policies: the default rules are not valid: " + err.Error())
	}
	return identity.Enforcer{Policy: e}
})
