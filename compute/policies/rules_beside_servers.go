package policies

import "github.com/openberth/berth/policy"

// The rules of what the Compute API has beside servers, flavors, services and moves, with Nova's names. Those of
// resources that Berth does not have guard the paths that refuse them.
const (
	CreateOnHost         = "os_compute_api:servers:create:forced_host"
	CreateOnTarget       = "compute:servers:create:requested_destination"
	UseZeroDiskFlavor    = "os_compute_api:servers:create:zero_disk_flavor"
	UnshelveToHost       = "os_compute_api:os-shelve:unshelve_to_host"
	UpdateServer         = "os_compute_api:servers:update"
	ShowServerMigration  = "os_compute_api:servers:migrations:show"
	AbortServerMigration = "os_compute_api:servers:migrations:delete"
	ForceServerMigration = "os_compute_api:servers:migrations:force_complete"
	ListMetadata         = "os_compute_api:server-metadata:index"
	ShowMetadata         = "os_compute_api:server-metadata:show"
	CreateMetadata       = "os_compute_api:server-metadata:create"
	ReplaceMetadata      = "os_compute_api:server-metadata:update_all"
	UpdateMetadata       = "os_compute_api:server-metadata:update"
	DeleteMetadata       = "os_compute_api:server-metadata:delete"
	ListTags             = "os_compute_api:os-server-tags:index"
	ShowTag              = "os_compute_api:os-server-tags:show"
	ReplaceTags          = "os_compute_api:os-server-tags:update_all"
	UpdateTag            = "os_compute_api:os-server-tags:update"
	DeleteTags           = "os_compute_api:os-server-tags:delete_all"
	DeleteTag            = "os_compute_api:os-server-tags:delete"
	ListActions          = "os_compute_api:os-instance-actions:list"
	ShowAction           = "os_compute_api:os-instance-actions:show"
	ShowActionEvents     = "os_compute_api:os-instance-actions:events"
	ShowActionDetails    = "os_compute_api:os-instance-actions:events:details"
	ListVolumes          = "os_compute_api:os-volumes-attachments:index"
	ShowVolume           = "os_compute_api:os-volumes-attachments:show"
	AttachVolume         = "os_compute_api:os-volumes-attachments:create"
	UpdateVolume         = "os_compute_api:os-volumes-attachments:update"
	DetachVolume         = "os_compute_api:os-volumes-attachments:delete"
	ListInterfaces       = "os_compute_api:os-attach-interfaces:list"
	ShowInterface        = "os_compute_api:os-attach-interfaces:show"
	AttachInterface      = "os_compute_api:os-attach-interfaces:create"
	DetachInterface      = "os_compute_api:os-attach-interfaces:delete"
	ReportEvents         = "os_compute_api:os-server-external-events:create"
	ListAddresses        = "os_compute_api:ips:index"
	ShowAddresses        = "os_compute_api:ips:show"
	ListSecurityGroups   = "os_compute_api:os-security-groups:list"
	AddSecurityGroup     = "os_compute_api:os-security-groups:add"
	RemoveSecurityGroup  = "os_compute_api:os-security-groups:remove"
	ListProjectGroups    = "os_compute_api:os-security-groups:get"
	ShowProjectGroup     = "os_compute_api:os-security-groups:show"
	CreateProjectGroup   = "os_compute_api:os-security-groups:create"
	UpdateProjectGroup   = "os_compute_api:os-security-groups:update"
	DeleteProjectGroup   = "os_compute_api:os-security-groups:delete"
	CreateGroupRule      = "os_compute_api:os-security-groups:rule:create"
	DeleteGroupRule      = "os_compute_api:os-security-groups:rule:delete"
	ListNetworks         = "os_compute_api:os-networks:list"
	ShowNetwork          = "os_compute_api:os-networks:show"
	ListProjectNetworks  = "os_compute_api:os-tenant-networks:list"
	ShowProjectNetwork   = "os_compute_api:os-tenant-networks:show"
	CreateConsole        = "os_compute_api:os-remote-consoles"
	ShowDiagnostics      = "os_compute_api:os-server-diagnostics"
	ShowConsoleToken     = "os_compute_api:os-console-auth-tokens"
	ConsoleOutput        = "os_compute_api:os-console-output"
	ShowTopology         = "compute:server:topology:index"
	ShowTopologyOfHost   = "compute:server:topology:host:index"
	ListShares           = "os_compute_api:os-server-shares:index"
	AttachShare          = "os_compute_api:os-server-shares:create"
	ShowShare            = "os_compute_api:os-server-shares:show"
	DetachShare          = "os_compute_api:os-server-shares:delete"
	ShowServerPassword   = "os_compute_api:os-server-password:show"
	ClearServerPassword  = "os_compute_api:os-server-password:clear"
	ListExtensions       = "os_compute_api:extensions"
	ListKeyPairs         = "os_compute_api:os-keypairs:index"
	ShowKeyPair          = "os_compute_api:os-keypairs:show"
	CreateKeyPair        = "os_compute_api:os-keypairs:create"
	DeleteKeyPair        = "os_compute_api:os-keypairs:delete"
	ListZones            = "os_compute_api:os-availability-zone:list"
	DetailZones          = "os_compute_api:os-availability-zone:detail"
	ShowQuotas           = "os_compute_api:os-quota-sets:show"
	DefaultQuotas        = "os_compute_api:os-quota-sets:defaults"
	DetailQuotas         = "os_compute_api:os-quota-sets:detail"
	UpdateQuotas         = "os_compute_api:os-quota-sets:update"
	DeleteQuotas         = "os_compute_api:os-quota-sets:delete"
	ShowQuotaClass       = "os_compute_api:os-quota-class-sets:show"
	UpdateQuotaClass     = "os_compute_api:os-quota-class-sets:update"
	ShowLimits           = "os_compute_api:limits"
	ShowLimitsOfOther    = "os_compute_api:limits:other_project"
	ListUsage            = "os_compute_api:os-simple-tenant-usage:list"
	ShowUsage            = "os_compute_api:os-simple-tenant-usage:show"
	ListHypervisors      = "os_compute_api:os-hypervisors:list"
	DetailHypervisors    = "os_compute_api:os-hypervisors:list-detail"
	HypervisorStatistics = "os_compute_api:os-hypervisors:statistics"
	ShowHypervisor       = "os_compute_api:os-hypervisors:show"
	HypervisorUptime     = "os_compute_api:os-hypervisors:uptime"
	SearchHypervisors    = "os_compute_api:os-hypervisors:search"
	HypervisorServers    = "os_compute_api:os-hypervisors:servers"
	ListOSHosts          = "os_compute_api:os-hosts:list"
	ShowOSHost           = "os_compute_api:os-hosts:show"
	UpdateOSHost         = "os_compute_api:os-hosts:update"
	DeleteService        = "os_compute_api:os-services:delete"
	ListAggregates       = "os_compute_api:os-aggregates:index"
	ShowAggregate        = "os_compute_api:os-aggregates:show"
	CreateAggregate      = "os_compute_api:os-aggregates:create"
	UpdateAggregate      = "os_compute_api:os-aggregates:update"
	DeleteAggregate      = "os_compute_api:os-aggregates:delete"
	AddAggregateHost     = "os_compute_api:os-aggregates:add_host"
	RemoveAggregateHost  = "os_compute_api:os-aggregates:remove_host"
	SetAggregateMetadata = "os_compute_api:os-aggregates:set_metadata"
	CacheAggregateImages = "compute:aggregates:images"
	ListAllServerGroups  = "os_compute_api:os-server-groups:index:all_projects"
	ListServerGroups     = "os_compute_api:os-server-groups:index"
	ShowServerGroup      = "os_compute_api:os-server-groups:show"
	CreateServerGroup    = "os_compute_api:os-server-groups:create"
	DeleteServerGroup    = "os_compute_api:os-server-groups:delete"
	ListAgents           = "os_compute_api:os-agents:list"
	CreateAgent          = "os_compute_api:os-agents:create"
	UpdateAgent          = "os_compute_api:os-agents:update"
	DeleteAgent          = "os_compute_api:os-agents:delete"
	ListFlavorAccess     = "os_compute_api:os-flavor-access"
	AddFlavorAccess      = "os_compute_api:os-flavor-access:add_tenant_access"
	RemoveFlavorAccess   = "os_compute_api:os-flavor-access:remove_tenant_access"
)

var guardsBesideServers = []policy.Row{
	{Names: CreateOnHost, Check: admin, What: "POST /servers (ZONE:HOST)"},
	{Names: CreateOnTarget, Check: admin, What: "POST /servers (host)"},
	{Names: UseZeroDiskFlavor, Check: admin, What: "POST /servers (imageRef, flavor with a disk of 0), rebuild, resize"},
	{Names: UnshelveToHost, Check: admin, What: "POST /servers/{id}/action (unshelve with host)"},
	{Names: UpdateServer, Check: member, What: "PUT /servers/{id}"},
	{Names: ShowServerMigration, Check: admin, What: "GET /servers/{id}/migrations/{id}"},
	{Names: AbortServerMigration, Check: admin, What: "DELETE /servers/{id}/migrations/{id}"},
	{Names: ForceServerMigration, Check: admin, What: "POST /servers/{id}/migrations/{id}/action"},
	{Names: ListMetadata, Check: reader, What: "GET /servers/{id}/metadata"},
	{Names: ShowMetadata, Check: reader, What: "GET /servers/{id}/metadata/{key}"},
	{Names: CreateMetadata, Check: member, What: "POST /servers/{id}/metadata"},
	{Names: ReplaceMetadata, Check: member, What: "PUT /servers/{id}/metadata"},
	{Names: UpdateMetadata, Check: member, What: "PUT /servers/{id}/metadata/{key}"},
	{Names: DeleteMetadata, Check: member, What: "DELETE /servers/{id}/metadata/{key}"},
	{Names: ListTags, Check: reader, What: "GET /servers/{id}/tags"},
	{Names: ShowTag, Check: reader, What: "GET /servers/{id}/tags/{tag}"},
	{Names: ReplaceTags, Check: member, What: "PUT /servers/{id}/tags"},
	{Names: UpdateTag, Check: member, What: "PUT /servers/{id}/tags/{tag}"},
	{Names: DeleteTags, Check: member, What: "DELETE /servers/{id}/tags"},
	{Names: DeleteTag, Check: member, What: "DELETE /servers/{id}/tags/{tag}"},
	{Names: ListActions, Check: reader, What: "GET /servers/{id}/os-instance-actions"},
	{Names: ShowAction, Check: reader, What: "GET /servers/{id}/os-instance-actions/{request}"},
	{Names: ShowActionEvents, Check: admin, What: "GET /servers/{id}/os-instance-actions/{request} (texts of events)"},
	{Names: ShowActionDetails, Check: admin, What: "GET /servers/{id}/os-instance-actions/{request} (their details)"},
	{Names: ListVolumes, Check: reader, What: "GET /servers/{id}/os-volume_attachments"},
	{Names: ShowVolume, Check: reader, What: "GET /servers/{id}/os-volume_attachments/{id}"},
	{Names: AttachVolume, Check: member, What: "POST /servers/{id}/os-volume_attachments"},
	{Names: UpdateVolume, Check: member, What: "PUT /servers/{id}/os-volume_attachments/{id}"},
	{Names: DetachVolume, Check: member, What: "DELETE /servers/{id}/os-volume_attachments/{id}"},
	{Names: ListInterfaces, Check: reader, What: "GET /servers/{id}/os-interface"},
	{Names: ShowInterface, Check: reader, What: "GET /servers/{id}/os-interface/{id}"},
	{Names: AttachInterface, Check: member, What: "POST /servers/{id}/os-interface"},
	{Names: DetachInterface, Check: member, What: "DELETE /servers/{id}/os-interface/{id}"},
	{Names: ReportEvents, Check: service, What: "POST /os-server-external-events"},
	{Names: ListAddresses, Check: reader, What: "GET /servers/{id}/ips"},
	{Names: ShowAddresses, Check: reader, What: "GET /servers/{id}/ips/{network}"},
	{Names: ListSecurityGroups, Check: reader, What: "GET /servers/{id}/os-security-groups"},
	{Names: AddSecurityGroup, Check: member, What: "addSecurityGroup"},
	{Names: RemoveSecurityGroup, Check: member, What: "removeSecurityGroup"},
	{Names: ListProjectGroups, Check: reader, What: "GET /os-security-groups"},
	{Names: ShowProjectGroup, Check: reader, What: "GET /os-security-groups/{id}"},
	{Names: CreateProjectGroup, Check: member, What: "POST /os-security-groups"},
	{Names: UpdateProjectGroup, Check: member, What: "PUT /os-security-groups/{id}"},
	{Names: DeleteProjectGroup, Check: member, What: "DELETE /os-security-groups/{id}"},
	{Names: CreateGroupRule, Check: member, What: "POST /os-security-group-rules"},
	{Names: DeleteGroupRule, Check: member, What: "DELETE /os-security-group-rules/{id}"},
	{Names: ListNetworks, Check: reader, What: "GET /os-networks"},
	{Names: ShowNetwork, Check: reader, What: "GET /os-networks/{id}"},
	{Names: ListProjectNetworks, Check: reader, What: "GET /os-tenant-networks"},
	{Names: ShowProjectNetwork, Check: reader, What: "GET /os-tenant-networks/{id}"},
	{Names: ShowConsoleToken, Check: admin, What: "GET /os-console-auth-tokens/{token}"},
	{Names: CreateConsole, Check: member, What: "POST /servers/{id}/remote-consoles"},
	{Names: ShowDiagnostics, Check: admin, What: "GET /servers/{id}/diagnostics"},
	{Names: ConsoleOutput, Check: member, What: "POST /servers/{id}/action (os-getConsoleOutput)"},
	{Names: ShowTopology, Check: reader, What: "GET /servers/{id}/topology"},
	{Names: ShowTopologyOfHost, Check: admin, What: "GET /servers/{id}/topology (places on the host)"},
	{Names: ListShares, Check: reader, What: "GET /servers/{id}/shares"},
	{Names: AttachShare, Check: member, What: "POST /servers/{id}/shares"},
	{Names: ShowShare, Check: reader, What: "GET /servers/{id}/shares/{share}"},
	{Names: DetachShare, Check: member, What: "DELETE /servers/{id}/shares/{share}"},
	{Names: ShowServerPassword, Check: reader, What: "GET /servers/{id}/os-server-password"},
	{Names: ClearServerPassword, Check: member, What: "DELETE /servers/{id}/os-server-password"},
	{Names: ListExtensions, Check: everybody, What: "GET /extensions"},
	{Names: ListKeyPairs, Check: user, What: "GET /os-keypairs"},
	{Names: ShowKeyPair, Check: user, What: "GET /os-keypairs/{name}"},
	{Names: CreateKeyPair, Check: user, What: "POST /os-keypairs"},
	{Names: DeleteKeyPair, Check: user, What: "DELETE /os-keypairs/{name}"},
	{Names: ListZones, Check: everybody, What: "GET /os-availability-zone"},
	{Names: DetailZones, Check: admin, What: "GET /os-availability-zone/detail"},
	{Names: ShowQuotas, Check: reader, What: "GET /os-quota-sets/{project}"},
	{Names: DefaultQuotas, Check: everybody, What: "GET /os-quota-sets/{project}/defaults"},
	{Names: DetailQuotas, Check: reader, What: "GET /os-quota-sets/{project}/detail"},
	{Names: UpdateQuotas, Check: admin, What: "PUT /os-quota-sets/{project}"},
	{Names: DeleteQuotas, Check: admin, What: "DELETE /os-quota-sets/{project}"},
	{Names: ShowQuotaClass, Check: admin, What: "GET /os-quota-class-sets/{class}"},
	{Names: UpdateQuotaClass, Check: admin, What: "PUT /os-quota-class-sets/{class}"},
	{Names: ShowLimits, Check: everybody, What: "GET /limits"},
	{Names: ShowLimitsOfOther, Check: admin, What: "GET /limits?tenant_id={project}"},
	{Names: ListUsage, Check: admin, What: "GET /os-simple-tenant-usage"},
	{Names: ShowUsage, Check: reader, What: "GET /os-simple-tenant-usage/{project}"},
	{Names: ListHypervisors, Check: admin, What: "GET /os-hypervisors"},
	{Names: DetailHypervisors, Check: admin, What: "GET /os-hypervisors/detail"},
	{Names: HypervisorStatistics, Check: admin, What: "GET /os-hypervisors/statistics"},
	{Names: ShowHypervisor, Check: admin, What: "GET /os-hypervisors/{id}"},
	{Names: HypervisorUptime, Check: admin, What: "GET /os-hypervisors/{id}/uptime"},
	{Names: SearchHypervisors, Check: admin, What: "GET /os-hypervisors/{name}/search"},
	{Names: HypervisorServers, Check: admin, What: "GET /os-hypervisors/{name}/servers"},
	{Names: ListOSHosts, Check: admin, What: "GET /os-hosts"},
	{Names: ShowOSHost, Check: admin, What: "GET /os-hosts/{host}"},
	{Names: UpdateOSHost, Check: admin, What: "PUT /os-hosts/{host}"},
	{Names: DeleteService, Check: admin, What: "DELETE /os-services/{id}"},
	{Names: ListAggregates, Check: admin, What: "GET /os-aggregates"},
	{Names: ShowAggregate, Check: admin, What: "GET /os-aggregates/{id}"},
	{Names: CreateAggregate, Check: admin, What: "POST /os-aggregates"},
	{Names: UpdateAggregate, Check: admin, What: "PUT /os-aggregates/{id}"},
	{Names: DeleteAggregate, Check: admin, What: "DELETE /os-aggregates/{id}"},
	{Names: AddAggregateHost, Check: admin, What: "POST /os-aggregates/{id}/action (add_host)"},
	{Names: RemoveAggregateHost, Check: admin, What: "POST /os-aggregates/{id}/action (remove_host)"},
	{Names: SetAggregateMetadata, Check: admin, What: "POST /os-aggregates/{id}/action (set_metadata)"},
	{Names: CacheAggregateImages, Check: admin, What: "POST /os-aggregates/{id}/images"},
	{Names: ListServerGroups, Check: reader, What: "GET /os-server-groups"},
	{Names: ListAllServerGroups, Check: admin, What: "GET /os-server-groups?all_projects"},
	{Names: ShowServerGroup, Check: reader, What: "GET /os-server-groups/{id}"},
	{Names: CreateServerGroup, Check: member, What: "POST /os-server-groups"},
	{Names: DeleteServerGroup, Check: member, What: "DELETE /os-server-groups/{id}"},
	{Names: ListAgents, Check: admin, What: "GET /os-agents"},
	{Names: CreateAgent, Check: admin, What: "POST /os-agents"},
	{Names: UpdateAgent, Check: admin, What: "PUT /os-agents/{id}"},
	{Names: DeleteAgent, Check: admin, What: "DELETE /os-agents/{id}"},
	{Names: ListFlavorAccess, Check: admin, What: "GET /flavors/{id}/os-flavor-access"},
	{Names: AddFlavorAccess, Check: admin, What: "addTenantAccess"},
	{Names: RemoveFlavorAccess, Check: admin, What: "removeTenantAccess"},
}
