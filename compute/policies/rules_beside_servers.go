package policies

// The rules of what the Compute API has beside servers, flavors, services and moves, with Nova's names. Those of
// resources that Berth does not have guard the paths that refuse them.
const (
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
	ListSecurityGroups   = "os_compute_api:os-security-groups:list"
	CreateConsole        = "os_compute_api:os-remote-consoles"
	ConsoleOutput        = "os_compute_api:os-console-output"
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
)

var guardsBesideServers = []guard{
	{UpdateServer, member, "PUT /servers/{id}"},
	{ShowServerMigration, admin, "GET /servers/{id}/migrations/{id}"},
	{AbortServerMigration, admin, "DELETE /servers/{id}/migrations/{id}"},
	{ForceServerMigration, admin, "POST /servers/{id}/migrations/{id}/action"},
	{ListMetadata, reader, "GET /servers/{id}/metadata"},
	{ShowMetadata, reader, "GET /servers/{id}/metadata/{key}"},
	{CreateMetadata, member, "POST /servers/{id}/metadata"},
	{ReplaceMetadata, member, "PUT /servers/{id}/metadata"},
	{UpdateMetadata, member, "PUT /servers/{id}/metadata/{key}"},
	{DeleteMetadata, member, "DELETE /servers/{id}/metadata/{key}"},
	{ListTags, reader, "GET /servers/{id}/tags"},
	{ShowTag, reader, "GET /servers/{id}/tags/{tag}"},
	{ReplaceTags, member, "PUT /servers/{id}/tags"},
	{UpdateTag, member, "PUT /servers/{id}/tags/{tag}"},
	{DeleteTags, member, "DELETE /servers/{id}/tags"},
	{DeleteTag, member, "DELETE /servers/{id}/tags/{tag}"},
	{ListActions, reader, "GET /servers/{id}/os-instance-actions"},
	{ShowAction, reader, "GET /servers/{id}/os-instance-actions/{request}"},
	{ShowActionEvents, admin, "GET /servers/{id}/os-instance-actions/{request} (texts of events)"},
	{ListVolumes, reader, "GET /servers/{id}/os-volume_attachments"},
	{ShowVolume, reader, "GET /servers/{id}/os-volume_attachments/{id}"},
	{AttachVolume, member, "POST /servers/{id}/os-volume_attachments"},
	{UpdateVolume, member, "PUT /servers/{id}/os-volume_attachments/{id}"},
	{DetachVolume, member, "DELETE /servers/{id}/os-volume_attachments/{id}"},
	{ListInterfaces, reader, "GET /servers/{id}/os-interface"},
	{ShowInterface, reader, "GET /servers/{id}/os-interface/{id}"},
	{AttachInterface, member, "POST /servers/{id}/os-interface"},
	{DetachInterface, member, "DELETE /servers/{id}/os-interface/{id}"},
	{ReportEvents, service, "POST /os-server-external-events"},
	{ListSecurityGroups, reader, "GET /servers/{id}/os-security-groups"},
	{CreateConsole, member, "POST /servers/{id}/remote-consoles"},
	{ConsoleOutput, member, "POST /servers/{id}/action (os-getConsoleOutput)"},
	{ListKeyPairs, user, "GET /os-keypairs"},
	{ShowKeyPair, user, "GET /os-keypairs/{name}"},
	{CreateKeyPair, user, "POST /os-keypairs"},
	{DeleteKeyPair, user, "DELETE /os-keypairs/{name}"},
	{ListZones, everybody, "GET /os-availability-zone"},
	{DetailZones, admin, "GET /os-availability-zone/detail"},
	{ShowQuotas, reader, "GET /os-quota-sets/{project}"},
	{DefaultQuotas, everybody, "GET /os-quota-sets/{project}/defaults"},
	{DetailQuotas, reader, "GET /os-quota-sets/{project}/detail"},
	{UpdateQuotas, admin, "PUT /os-quota-sets/{project}"},
	{DeleteQuotas, admin, "DELETE /os-quota-sets/{project}"},
	{ShowQuotaClass, admin, "GET /os-quota-class-sets/{class}"},
	{UpdateQuotaClass, admin, "PUT /os-quota-class-sets/{class}"},
	{ShowLimits, everybody, "GET /limits"},
	{ShowLimitsOfOther, admin, "GET /limits?tenant_id={project}"},
	{ListUsage, admin, "GET /os-simple-tenant-usage"},
	{ShowUsage, reader, "GET /os-simple-tenant-usage/{project}"},
	{ListHypervisors, admin, "GET /os-hypervisors"},
	{DetailHypervisors, admin, "GET /os-hypervisors/detail"},
	{HypervisorStatistics, admin, "GET /os-hypervisors/statistics"},
	{ShowHypervisor, admin, "GET /os-hypervisors/{id}"},
	{HypervisorUptime, admin, "GET /os-hypervisors/{id}/uptime"},
	{SearchHypervisors, admin, "GET /os-hypervisors/{name}/search"},
	{HypervisorServers, admin, "GET /os-hypervisors/{name}/servers"},
	{ListOSHosts, admin, "GET /os-hosts"},
	{ShowOSHost, admin, "GET /os-hosts/{host}"},
	{UpdateOSHost, admin, "PUT /os-hosts/{host}"},
	{DeleteService, admin, "DELETE /os-services/{id}"},
	{ListAggregates, admin, "GET /os-aggregates"},
	{ShowAggregate, admin, "GET /os-aggregates/{id}"},
	{CreateAggregate, admin, "POST /os-aggregates"},
	{UpdateAggregate, admin, "PUT /os-aggregates/{id}"},
	{DeleteAggregate, admin, "DELETE /os-aggregates/{id}"},
	{AddAggregateHost, admin, "POST /os-aggregates/{id}/action"},
	{ListServerGroups, reader, "GET /os-server-groups"},
	{ShowServerGroup, reader, "GET /os-server-groups/{id}"},
	{CreateServerGroup, member, "POST /os-server-groups"},
	{DeleteServerGroup, member, "DELETE /os-server-groups/{id}"},
	{ListAgents, admin, "GET /os-agents"},
	{CreateAgent, admin, "POST /os-agents"},
	{UpdateAgent, admin, "PUT /os-agents/{id}"},
	{DeleteAgent, admin, "DELETE /os-agents/{id}"},
	{ListFlavorAccess, admin, "GET /flavors/{id}/os-flavor-access"},
	{AddFlavorAccess, admin, "POST /flavors/{id}/action"},
}
