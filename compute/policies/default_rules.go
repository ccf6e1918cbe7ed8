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
//	events: watch                       own     no        yes, of all projects, hosts and devices
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
	AllFilters           = "os_compute_api:servers:allow_all_filters"
	ShowServer           = "os_compute_api:servers:show"
	CreateServer         = "os_compute_api:servers:create"
	DeleteServer         = "os_compute_api:servers:delete"
	ForceDeleteServer    = "os_compute_api:os-deferred-delete:force"
	RestoreServer        = "os_compute_api:os-deferred-delete:restore"
	CreateSnapshot       = "os_compute_api:servers:create_image"
	CreateBackup         = "os_compute_api:os-create-backup"
	StartServer          = "os_compute_api:servers:start"
	StopServer           = "os_compute_api:servers:stop"
	RebootServer         = "os_compute_api:servers:reboot"
	PauseServer          = "os_compute_api:os-pause-server:pause"
	UnpauseServer        = "os_compute_api:os-pause-server:unpause"
	CrashDump            = "os_compute_api:servers:trigger_crash_dump"
	ChangePassword       = "os_compute_api:os-admin-password"
	InjectNetworkInfo    = "os_compute_api:os-admin-actions:inject_network_info"
	SuspendServer        = "os_compute_api:os-suspend-server:suspend"
	ResumeServer         = "os_compute_api:os-suspend-server:resume"
	RescueServer         = "os_compute_api:os-rescue"
	UnrescueServer       = "os_compute_api:os-unrescue"
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
	LockServer           = "os_compute_api:os-lock-server:lock"
	UnlockServer         = "os_compute_api:os-lock-server:unlock"
	UnlockOverride       = "os_compute_api:os-lock-server:unlock:unlock_override"
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
	CountGuarantees = "berth:servers:guarantees"
	ListHosts       = "berth:hosts:list"
	ReportHost      = "berth:hosts:report"
	ForgetHost      = "berth:hosts:forget"
	ShowHeadroom    = "berth:headroom:show"
	PlanDrain       = "berth:hosts:drain:plan"
	AuditHost       = "berth:hosts:audit"
	HealHost        = "berth:hosts:heal"
	HealPorts       = "berth:ports:heal"

	ReportDifferences = "berth:differences:report"
	ListDifferences   = "berth:differences:list"

	SetHostDown     = "berth:hosts:down"
	SetHostUp       = "berth:hosts:up"
	BindHost        = "berth:hosts:bind"
	UnbindHost      = "berth:hosts:unbind"
	ReadAssignments = "berth:hosts:assignments"
	ReportGuest     = "berth:guests:report"
	ListDevices     = "berth:devices:list"
	CleanDevice     = "berth:devices:clean"
	DisableDevice   = "berth:devices:disable"
	EnableDevice    = "berth:devices:enable"
	WatchEvents     = "berth:events:watch"
	WatchAllEvents  = "berth:events:watch:all"
)

var guards = []policy.Row{
	{Names: ListServers, Check: reader, What: "GET /servers"},
	{Names: ListServersOfAll, Check: admin, What: "GET /servers?all_tenants=1"},
	{Names: DetailServers, Check: reader, What: "GET /servers/detail"},
	{Names: DetailServersOfAll, Check: admin, What: "GET /servers/detail?all_tenants=1"},
	{Names: AllFilters, Check: admin, What: "GET /servers and GET /servers/detail with all filters"},
	{Names: ShowServer, Check: reader, What: "GET /servers/{id}"},
	{Names: CreateServer, Check: member, What: "POST /servers"},
	{Names: DeleteServer, Check: member, What: "DELETE /servers/{id}"},
	{Names: ForceDeleteServer, Check: member, What: "POST /servers/{id}/action (forceDelete)"},
	{Names: RestoreServer, Check: member, What: "POST /servers/{id}/action (restore)"},
	{Names: CreateSnapshot, Check: member, What: "POST /servers/{id}/action (createImage)"},
	{Names: CreateBackup, Check: member, What: "POST /servers/{id}/action (createBackup)"},
	{Names: StartServer, Check: member, What: "POST /servers/{id}/action (os-start)"},
	{Names: StopServer, Check: member, What: "POST /servers/{id}/action (os-stop)"},
	{Names: RebootServer, Check: member, What: "POST /servers/{id}/action (reboot)"},
	{Names: PauseServer, Check: member, What: "POST /servers/{id}/action (pause)"},
	{Names: UnpauseServer, Check: member, What: "POST /servers/{id}/action (unpause)"},
	{Names: CrashDump, Check: member, What: "POST /servers/{id}/action (trigger_crash_dump)"},
	{Names: ChangePassword, Check: member, What: "POST /servers/{id}/action (changePassword)"},
	{Names: InjectNetworkInfo, Check: admin, What: "POST /servers/{id}/action (injectNetworkInfo)"},
	{Names: SuspendServer, Check: member, What: "POST /servers/{id}/action (suspend)"},
	{Names: ResumeServer, Check: member, What: "POST /servers/{id}/action (resume)"},
	{Names: RescueServer, Check: member, What: "POST /servers/{id}/action (rescue)"},
	{Names: UnrescueServer, Check: member, What: "POST /servers/{id}/action (unrescue)"},
	{Names: RebuildServer, Check: member, What: "POST /servers/{id}/action (rebuild)"},
	{Names: ResizeServer, Check: member, What: "POST /servers/{id}/action (resize)"},
	{Names: ConfirmResize, Check: member, What: "POST /servers/{id}/action (confirmResize)"},
	{Names: RevertResize, Check: member, What: "POST /servers/{id}/action (revertResize)"},
	{Names: MigrateServer, Check: admin, What: "POST /servers/{id}/action (migrate)"},
	{Names: LiveMigrateServer, Check: admin, What: "POST /servers/{id}/action (os-migrateLive)"},
	{Names: EvacuateServer, Check: admin, What: "POST /servers/{id}/action (evacuate)"},
	{Names: ShelveServer, Check: member, What: "POST /servers/{id}/action (shelve)"},
	{Names: OffloadServer, Check: admin, What: "POST /servers/{id}/action (shelveOffload)"},
	{Names: UnshelveServer, Check: member, What: "POST /servers/{id}/action (unshelve)"},
	{Names: LockServer, Check: member, What: "POST /servers/{id}/action (lock)"},
	{Names: UnlockServer, Check: member, What: "POST /servers/{id}/action (unlock)"},
	{Names: UnlockOverride, Check: admin, What: "POST /servers/{id}/action (unlock, of another's lock)"},
	{Names: ResetServer, Check: admin, What: "POST /servers/{id}/action (os-resetState)"},
	{Names: ListServerMigrations, Check: admin, What: "GET /servers/{id}/migrations"},
	{Names: ListMigrations, Check: admin, What: "GET /os-migrations"},
	{Names: ListServices, Check: admin, What: "GET /os-services"},
	{Names: UpdateService, Check: admin, What: "PUT /os-services/{id}, PUT /os-services/force-down"},
	{Names: CreateFlavor, Check: admin, What: "POST /flavors"},
	{Names: UpdateFlavor, Check: admin, What: "PUT /flavors/{id}"},
	{Names: DeleteFlavor, Check: admin, What: "DELETE /flavors/{id}"},
	{Names: ListExtraSpecs, Check: reader, What: "GET /flavors/{id}/os-extra_specs"},
	{Names: ShowExtraSpec, Check: reader, What: "GET /flavors/{id}/os-extra_specs/{key}"},
	{Names: CreateExtraSpecs, Check: admin, What: "POST /flavors/{id}/os-extra_specs"},
	{Names: UpdateExtraSpec, Check: admin, What: "PUT /flavors/{id}/os-extra_specs/{key}"},
	{Names: DeleteExtraSpec, Check: admin, What: "DELETE /flavors/{id}/os-extra_specs/{key}"},
	{Names: ExplainServer, Check: reader, What: "GET /berth/v1/servers/{id}/why"},
	{Names: CountGuarantees, Check: service, What: "PUT /berth/v1/servers/{id}/guarantees/{change}"},
	{Names: ListHosts, Check: service, What: "GET /berth/v1/hosts[/{host}]"},
	{Names: ReportHost, Check: agent, What: "PUT /berth/v1/hosts/{host}"},
	{Names: ForgetHost, Check: admin, What: "DELETE /berth/v1/hosts/{host}"},
	{Names: ShowHeadroom, Check: admin, What: "GET /berth/v1/headroom"},
	{Names: PlanDrain, Check: admin, What: "GET /berth/v1/hosts/{host}/drain"},
	{Names: AuditHost, Check: admin, What: "GET /berth/v1/hosts/{host}/allocations"},
	{Names: HealHost, Check: admin, What: "POST /berth/v1/hosts/{host}/allocations"},
	{Names: HealPorts, Check: admin, What: "POST /berth/v1/ports/heal"},
	{Names: ReportDifferences, Check: admin, What: "PUT /berth/v1/differences"},
	{Names: ListDifferences, Check: admin, What: "GET /berth/v1/differences"},
	{Names: SetHostDown, Check: admin, What: "PUT /berth/v1/hosts/{host}/down"},
	{Names: SetHostUp, Check: admin, What: "DELETE /berth/v1/hosts/{host}/down"},
	{Names: BindHost, Check: admin, What: "PUT /berth/v1/hosts/{host}/account"},
	{Names: UnbindHost, Check: admin, What: "DELETE /berth/v1/hosts/{host}/account"},
	{Names: ReadAssignments, Check: agent, What: "GET /berth/v1/hosts/{host}/assignments"},
	{Names: ReportGuest, Check: agent, What: "PUT /berth/v1/hosts/{host}/guests/{server}"},
	{Names: ListDevices, Check: service, What: "GET /berth/v1/devices and of one device"},
	{Names: CleanDevice, Check: admin, What: "POST /berth/v1/hosts/{host}/devices/{address}/clean"},
	{Names: DisableDevice, Check: admin, What: "PUT /berth/v1/hosts/{host}/devices/{address}/disabled"},
	{Names: EnableDevice, Check: admin, What: "DELETE /berth/v1/hosts/{host}/devices/{address}/disabled"},
	{Names: WatchEvents, Check: reader, What: "GET /berth/v1/events, of the servers of the own project"},
	{Names: WatchAllEvents, Check: admin, What: "GET /berth/v1/events, of all projects and of hosts and devices"},
}

// base are the base rules of Nova that policy files refer to.
func base() []policy.Rule {
	owner := &policy.Deprecated{Name: "rule:admin_or_owner", Check: "role:admin or project_id:%(project_id)s"}
	return []policy.Rule{
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
}

// table is the default policy.
var table = policy.Table{Service: "compute", Base: base(), Rows: slices.Concat(guards, guardsBesideServers)}

// Rules returns the defaults, with the base rules of Nova that policy files refer to.
func Rules() []policy.Rule { return table.Rules() }

var checks = sync.OnceValue(table.Checks)

// Needs returns which role a caller needs by default, for an error text; empty: none, but the project of the server.
func Needs(rule string) string {
	switch checks()[rule] {
	case admin:
		return "the role admin"
	case service:
		return "the role service or admin"
	case agent:
		return "the role service"
	}
	return ""
}

// Default returns an Enforcer of the defaults.
func Default() identity.Enforcer { return identity.Enforcer{Policy: enforcer()} }

var enforcer = table.Defaults()
