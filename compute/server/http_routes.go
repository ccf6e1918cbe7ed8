package server

import (
	"maps"
	"net/http"
)

// routes returns the handlers of all paths. {…} is one segment.
func (s *server) routes() map[string]methods {
	all := map[string]methods{
		"/":         {public: unknownPath},
		"/{$}":      {public: nil, http.MethodGet: showVersions},
		"/v2.1":     {public: nil, http.MethodGet: showVersion},
		"/v2.1/{$}": {public: nil, http.MethodGet: showVersion},

		healthPath: {public: nil, http.MethodGet: s.healthz},

		"/v2.1/servers":        {http.MethodGet: s.listServers, http.MethodPost: s.createServers},
		"/v2.1/servers/detail": {http.MethodGet: s.detailServers},
		"/v2.1/servers/{id}": {http.MethodGet: s.showServer, http.MethodPut: s.updateServer,
			http.MethodDelete: s.deleteServer},

		"/v2.1/servers/{id}/action":     {http.MethodPost: s.act},
		"/v2.1/servers/{id}/migrations": {http.MethodGet: admin(s.serverMigrations)},
		"/v2.1/os-migrations":           {http.MethodGet: admin(s.listMigrations)},
		"/v2.1/os-services":             {http.MethodGet: admin(s.listServices)},
		"/v2.1/os-services/force-down":  {http.MethodPut: admin(s.forceDown)},
		"/v2.1/os-services/{service}": {http.MethodPut: admin(s.updateService),
			http.MethodDelete: admin(refused(noServiceRemoval))},

		"/v2.1/flavors":        {http.MethodGet: s.listFlavors, http.MethodPost: admin(s.createFlavor)},
		"/v2.1/flavors/detail": {http.MethodGet: s.detailFlavors},
		"/v2.1/flavors/{id}": {http.MethodGet: s.showFlavor, http.MethodPut: admin(s.describeFlavor),
			http.MethodDelete: admin(s.deleteFlavor)},
		"/v2.1/flavors/{id}/os-extra_specs": {http.MethodGet: s.listExtraSpecs,
			http.MethodPost: admin(s.createExtraSpecs)},
		"/v2.1/flavors/{id}/os-extra_specs/{key}": {http.MethodGet: s.showExtraSpec, http.MethodPut: admin(s.putExtraSpec),
			http.MethodDelete: admin(s.deleteExtraSpec)},

		"/berth/v1/servers/{id}/why": {http.MethodGet: s.why},
		"/berth/v1/hosts":            {http.MethodGet: service(s.listHosts)},
		"/berth/v1/hosts/{host}": {http.MethodPut: service(s.putReport),
			http.MethodDelete: admin(s.forgetHost)},
		"/berth/v1/hosts/{host}/allocations": {http.MethodGet: admin(s.hostAllocations),
			http.MethodPost: admin(s.healHost)},
		"/berth/v1/hosts/{host}/down": {http.MethodPut: admin(s.hostDown),
			http.MethodDelete: admin(s.hostUp)},
		"/berth/v1/hosts/{host}/devices/{address}/clean": {http.MethodPost: admin(s.cleanDevice)},
		"/berth/v1/hosts/{host}/assignments":             {http.MethodGet: service(s.watch)},
		"/berth/v1/hosts/{host}/guests/{server}":         {http.MethodPut: service(s.putGuest)},
		"/berth/v1/devices":                              {http.MethodGet: service(s.listDevices)},
	}
	maps.Copy(all, s.serverPartRoutes())
	maps.Copy(all, s.userRoutes())
	maps.Copy(all, s.operatorRoutes())
	maps.Copy(all, s.refusedRoutes())
	return all
}

// serverPartRoutes returns the handlers of the paths below a server.
func (s *server) serverPartRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/servers/{id}/metadata": {http.MethodGet: s.listMetadata, http.MethodPost: s.addMetadata,
			http.MethodPut: s.replaceMetadata},
		"/v2.1/servers/{id}/metadata/{key}": {http.MethodGet: s.showMetadata, http.MethodPut: s.putMetadata,
			http.MethodDelete: s.deleteMetadata},
		"/v2.1/servers/{id}/tags": {http.MethodGet: s.listTags, http.MethodPut: s.replaceTags,
			http.MethodDelete: s.deleteTags},
		"/v2.1/servers/{id}/tags/{tag}": {http.MethodGet: s.showTag, http.MethodPut: s.putTag,
			http.MethodDelete: s.deleteTag},
		"/v2.1/servers/{id}/os-instance-actions":           {http.MethodGet: s.listActions},
		"/v2.1/servers/{id}/os-instance-actions/{request}": {http.MethodGet: s.showAction},
		"/v2.1/servers/{id}/migrations/{migration}": {http.MethodGet: admin(s.serverMigration),
			http.MethodDelete: admin(s.refusedOfServer(noAbort))},
		"/v2.1/servers/{id}/migrations/{migration}/action": {http.MethodPost: admin(s.refusedOfServer(noAbort))},
		"/v2.1/servers/{id}/os-volume_attachments": {http.MethodGet: s.emptyOfServer("volumeAttachments"),
			http.MethodPost: s.refusedOfServer(noVolumes)},
		"/v2.1/servers/{id}/os-volume_attachments/{volume}": {http.MethodGet: s.refusedOfServer(noVolumes),
			http.MethodPut: s.refusedOfServer(noVolumes), http.MethodDelete: s.refusedOfServer(noVolumes)},
		"/v2.1/servers/{id}/os-interface": {http.MethodGet: s.emptyOfServer("interfaceAttachments"),
			http.MethodPost: s.refusedOfServer(noNetwork)},
		"/v2.1/servers/{id}/os-interface/{port}": {http.MethodGet: s.refusedOfServer(noNetwork),
			http.MethodDelete: s.refusedOfServer(noNetwork)},
		"/v2.1/servers/{id}/os-security-groups": {http.MethodGet: s.emptyOfServer("security_groups")},
		"/v2.1/servers/{id}/remote-consoles":    {http.MethodPost: s.refusedOfServer(noConsoles)},
	}
}

// userRoutes returns the handlers of the paths beside servers and flavors that plain users may use.
func (s *server) userRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/os-keypairs":        {http.MethodGet: s.listKeyPairs, http.MethodPost: s.createKeyPair},
		"/v2.1/os-keypairs/{name}": {http.MethodGet: s.showKeyPair, http.MethodDelete: s.deleteKeyPair},

		"/v2.1/os-availability-zone":        {http.MethodGet: s.listZones},
		"/v2.1/os-availability-zone/detail": {http.MethodGet: admin(s.detailZones)},

		"/v2.1/os-quota-sets/{project}": {http.MethodGet: s.showQuotas, http.MethodPut: admin(refused(noQuotas)),
			http.MethodDelete: admin(refused(noQuotas))},
		"/v2.1/os-quota-sets/{project}/defaults": {http.MethodGet: s.defaultQuotas},
		"/v2.1/os-quota-sets/{project}/detail":   {http.MethodGet: s.detailQuotas},
		"/v2.1/os-quota-class-sets/{class}": {http.MethodGet: admin(s.showQuotaClass),
			http.MethodPut: admin(refused(noQuotas))},
		"/v2.1/limits":                           {http.MethodGet: s.showLimits},
		"/v2.1/os-simple-tenant-usage":           {http.MethodGet: admin(s.listUsage)},
		"/v2.1/os-simple-tenant-usage/{project}": {http.MethodGet: s.showUsage},
	}
}

// operatorRoutes returns the handlers of the paths about hosts.
func (s *server) operatorRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/os-hypervisors":              {http.MethodGet: admin(s.listHypervisors)},
		"/v2.1/os-hypervisors/detail":       {http.MethodGet: admin(s.detailHypervisors)},
		"/v2.1/os-hypervisors/statistics":   {http.MethodGet: admin(s.hypervisorStatistics)},
		"/v2.1/os-hypervisors/{id}":         {http.MethodGet: admin(s.showHypervisor)},
		"/v2.1/os-hypervisors/{id}/uptime":  {http.MethodGet: admin(s.hypervisorUptime)},
		"/v2.1/os-hypervisors/{id}/search":  {http.MethodGet: admin(s.searchHypervisors(false))},
		"/v2.1/os-hypervisors/{id}/servers": {http.MethodGet: admin(s.searchHypervisors(true))},
		"/v2.1/os-hosts":                    {http.MethodGet: admin(s.listOSHosts)},
		"/v2.1/os-hosts/{host}":             {http.MethodGet: admin(s.showOSHost), http.MethodPut: admin(refused(noPower))},
	}
}

// refusedRoutes returns the handlers of the paths whose resources Berth does not have.
func (s *server) refusedRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/os-aggregates":    {http.MethodGet: admin(empty("aggregates")), http.MethodPost: admin(refused(noAggregates))},
		"/v2.1/os-server-groups": {http.MethodGet: empty("server_groups"), http.MethodPost: refused(noServerGroups)},
		"/v2.1/os-aggregates/{id}": {http.MethodGet: admin(refused(noAggregates)),
			http.MethodPut: admin(refused(noAggregates)), http.MethodDelete: admin(refused(noAggregates))},
		"/v2.1/os-aggregates/{id}/action": {http.MethodPost: admin(refused(noAggregates))},
		"/v2.1/os-server-groups/{id}": {http.MethodGet: refused(noServerGroups),
			http.MethodDelete: refused(noServerGroups)},
		"/v2.1/os-agents": {http.MethodGet: admin(empty("agents")), http.MethodPost: admin(refused(noAgentBuilds))},
		"/v2.1/os-agents/{agent}": {http.MethodPut: admin(refused(noAgentBuilds)),
			http.MethodDelete: admin(refused(noAgentBuilds))},
		"/v2.1/flavors/{id}/os-flavor-access": {http.MethodGet: admin(refused(noAccess))},
		"/v2.1/flavors/{id}/action":           {http.MethodPost: admin(refused(noAccess))},
	}
}
