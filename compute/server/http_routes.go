package server

import (
	"maps"
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/policies"
)

// method is one method of a path, and methods are all of them.
type (
	method  = edge.Method[*call]
	methods = map[string]method
)

// open returns a method without a policy rule.
func open(handle func(*call) error) method { return method{Handle: handle} }

// guarded returns a method that the policy allows or refuses before it is handled.
func guarded(rule string, handle func(*call) error) method {
	return method{Spec: edge.Spec{Rule: rule}, Handle: handle}
}

// guardedServer returns a method about one server, which the policy allows or refuses after the handler has read the
// server with visibleServer.
func guardedServer(rule string, handle func(*call) error) method {
	return method{Handle: func(c *call) error {
		c.rule = rule
		return handle(c)
	}}
}

// byAgents returns a guarded method that only the agent of the host in the path calls, and often: it is logged at debug
// level. If the host is bound to an account, the caller must be that account.
func (s *server) byAgents(rule string, handle func(*call) error) method {
	return method{Spec: edge.Spec{Rule: rule, Quiet: true, AnyText: true}, Handle: func(c *call) error {
		if err := s.checkAccount(c.R.Context(), c.R.PathValue("host"), c.Who.User); err != nil {
			return err
		}
		return handle(c)
	}}
}

// routes returns the paths of the APIs. {…} is one segment.
func (s *server) routes() []edge.Route[*call] {
	var all []edge.Route[*call]
	for _, path := range []string{"/v2.1", "/v2.1/"} {
		all = append(all, edge.Route[*call]{Path: path, Public: true, Methods: methods{http.MethodGet: open(showVersion)}})
	}
	all = append(all, edge.Route[*call]{Path: "/", Public: true, Methods: methods{http.MethodGet: open(showVersions)}})
	for path, m := range s.guardedRoutes() {
		all = append(all, edge.Route[*call]{Path: path, Methods: m})
	}
	return all
}

// guardedRoutes returns the paths that need a token.
func (s *server) guardedRoutes() map[string]methods {
	all := s.serverFlavorAndHostRoutes()
	maps.Copy(all, s.serverPartRoutes())
	maps.Copy(all, s.consoleRoutes())
	maps.Copy(all, s.userRoutes())
	maps.Copy(all, s.operatorRoutes())
	maps.Copy(all, s.refusedServerPartRoutes())
	maps.Copy(all, refusedRoutes())
	return all
}

// serverFlavorAndHostRoutes returns the paths of servers, moves, services and flavors, and those of /berth/v1. Flavors
// have no rule, as in Nova: everybody may read them.
func (s *server) serverFlavorAndHostRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/servers": {http.MethodGet: guarded(policies.ListServers, s.listServers),
			http.MethodPost: guarded(policies.CreateServer, s.createServers)},
		"/v2.1/servers/detail": {http.MethodGet: guarded(policies.DetailServers, s.detailServers)},
		"/v2.1/servers/{id}": {http.MethodGet: guardedServer(policies.ShowServer, s.showServer),
			http.MethodPut:    guardedServer(policies.UpdateServer, s.updateServer),
			http.MethodDelete: guardedServer(policies.DeleteServer, s.deleteServer)},

		"/v2.1/servers/{id}/action":     {http.MethodPost: open(s.act)}, // each action has its rule
		"/v2.1/servers/{id}/migrations": {http.MethodGet: guarded(policies.ListServerMigrations, s.serverMigrations)},
		"/v2.1/servers/{id}/migrations/{migration}": {
			http.MethodGet:    guarded(policies.ShowServerMigration, s.serverMigration),
			http.MethodDelete: guarded(policies.AbortServerMigration, s.refusedOfServer(noAbort))},
		"/v2.1/servers/{id}/migrations/{migration}/action": {
			http.MethodPost: guarded(policies.ForceServerMigration, s.refusedOfServer(noAbort))},
		"/v2.1/os-migrations":          {http.MethodGet: guarded(policies.ListMigrations, s.listMigrations)},
		"/v2.1/os-services":            {http.MethodGet: guarded(policies.ListServices, s.listServices)},
		"/v2.1/os-services/force-down": {http.MethodPut: guarded(policies.UpdateService, s.forceDown)},
		"/v2.1/os-services/enable":     {http.MethodPut: guarded(policies.UpdateService, s.enableService)},
		"/v2.1/os-services/disable":    {http.MethodPut: guarded(policies.UpdateService, s.disableService)},
		"/v2.1/os-services/disable-log-reason": {
			http.MethodPut: guarded(policies.UpdateService, s.disableServiceWithReason)},
		"/v2.1/os-services/{service}": {http.MethodPut: guarded(policies.UpdateService, s.updateService),
			http.MethodDelete: guarded(policies.DeleteService, refused(noServiceRemoval))},

		"/v2.1/flavors": {http.MethodGet: open(s.listFlavors),
			http.MethodPost: guarded(policies.CreateFlavor, s.createFlavor)},
		"/v2.1/flavors/detail": {http.MethodGet: open(s.detailFlavors)},
		"/v2.1/flavors/{id}": {http.MethodGet: open(s.showFlavor),
			http.MethodPut:    guarded(policies.UpdateFlavor, s.describeFlavor),
			http.MethodDelete: guarded(policies.DeleteFlavor, s.deleteFlavor)},
		"/v2.1/flavors/{id}/os-extra_specs": {http.MethodGet: guarded(policies.ListExtraSpecs, s.listExtraSpecs),
			http.MethodPost: guarded(policies.CreateExtraSpecs, s.createExtraSpecs)},
		"/v2.1/flavors/{id}/os-extra_specs/{key}": {http.MethodGet: guarded(policies.ShowExtraSpec, s.showExtraSpec),
			http.MethodPut:    guarded(policies.UpdateExtraSpec, s.putExtraSpec),
			http.MethodDelete: guarded(policies.DeleteExtraSpec, s.deleteExtraSpec)},

		"/berth/v1/servers/{id}/why": {http.MethodGet: guardedServer(policies.ExplainServer, s.why)},
		"/berth/v1/hosts":            {http.MethodGet: guarded(policies.ListHosts, s.listHosts)},
		"/berth/v1/hosts/{host}": {http.MethodPut: s.byAgents(policies.ReportHost, s.putReport),
			http.MethodDelete: guarded(policies.ForgetHost, s.forgetHost)},
		"/berth/v1/hosts/{host}/alive": {http.MethodPut: s.byAgents(policies.ReportHost, s.putAlive)},
		"/berth/v1/hosts/{host}/allocations": {http.MethodGet: guarded(policies.AuditHost, s.hostAllocations),
			http.MethodPost: guarded(policies.HealHost, s.healHost)},
		"/berth/v1/hosts/{host}/drain": {http.MethodGet: guarded(policies.PlanDrain, s.planDrain)},
		"/berth/v1/hosts/{host}/down": {http.MethodPut: guarded(policies.SetHostDown, s.hostDown),
			http.MethodDelete: guarded(policies.SetHostUp, s.hostUp)},
		"/berth/v1/hosts/{host}/account": {http.MethodPut: guarded(policies.BindHost, s.bindHost),
			http.MethodDelete: guarded(policies.UnbindHost, s.unbindHost)},
		"/berth/v1/hosts/{host}/devices/{address}/clean": {
			http.MethodPost: guarded(policies.CleanDevice, s.cleanDevice)},
		"/berth/v1/hosts/{host}/assignments": {http.MethodGet: s.byAgents(policies.ReadAssignments, s.watch)},
		"/berth/v1/hosts/{host}/guests/{server}": {http.MethodPut: s.byAgents(policies.ReportGuest, s.putGuest),
			http.MethodGet: s.byAgents(policies.ReadAssignments, s.firstBoot)},
		"/berth/v1/ports/heal": {http.MethodPost: guarded(policies.HealPorts, s.healPorts)},
		"/berth/v1/headroom":   {http.MethodGet: guarded(policies.ShowHeadroom, s.headroom)},
		"/berth/v1/devices":    {http.MethodGet: guarded(policies.ListDevices, s.listDevices)},
	}
}

// consoleRoutes returns the paths of consoles, for users and for agents.
func (s *server) consoleRoutes() map[string]methods {
	return map[string]methods{
		"/berth/v1/servers/{id}/console": {http.MethodPost: guardedServer(policies.CreateConsole, s.openConsole)},
		"/berth/v1/servers/{id}/console/{session}": {
			http.MethodPost: guardedServer(policies.CreateConsole, s.typeConsole)},
		"/berth/v1/hosts/{host}/consoles/{id}": {http.MethodPut: s.byAgents(policies.ReportGuest, s.putConsole)},
		"/berth/v1/hosts/{host}/consoles/{id}/input": {
			http.MethodGet: s.byAgents(policies.ReportGuest, s.consoleInput)},
		"/berth/v1/hosts/{host}/consoles/{id}/output": {
			http.MethodPost: s.byAgents(policies.ReportGuest, s.postConsole)},
	}
}

// serverPartRoutes returns the paths below a server, apart from its moves.
func (s *server) serverPartRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/servers/{id}/metadata": {http.MethodGet: guardedServer(policies.ListMetadata, s.listMetadata),
			http.MethodPost: guardedServer(policies.CreateMetadata, s.addMetadata),
			http.MethodPut:  guardedServer(policies.ReplaceMetadata, s.replaceMetadata)},
		"/v2.1/servers/{id}/metadata/{key}": {http.MethodGet: guardedServer(policies.ShowMetadata, s.showMetadata),
			http.MethodPut:    guardedServer(policies.UpdateMetadata, s.putMetadata),
			http.MethodDelete: guardedServer(policies.DeleteMetadata, s.deleteMetadata)},
		"/v2.1/servers/{id}/tags": {http.MethodGet: guardedServer(policies.ListTags, s.listTags),
			http.MethodPut:    guardedServer(policies.ReplaceTags, s.replaceTags),
			http.MethodDelete: guardedServer(policies.DeleteTags, s.deleteTags)},
		"/v2.1/servers/{id}/tags/{tag}": {http.MethodGet: guardedServer(policies.ShowTag, s.showTag),
			http.MethodPut:    guardedServer(policies.UpdateTag, s.putTag),
			http.MethodDelete: guardedServer(policies.DeleteTag, s.deleteTag)},
		"/v2.1/servers/{id}/os-instance-actions": {http.MethodGet: guardedServer(policies.ListActions, s.listActions)},
		"/v2.1/servers/{id}/os-instance-actions/{request}": {
			http.MethodGet: guardedServer(policies.ShowAction, s.showAction)},
	}
}

// userRoutes returns the paths beside servers and flavors that plain users may use.
func (s *server) userRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/os-keypairs": {http.MethodGet: guarded(policies.ListKeyPairs, s.listKeyPairs),
			http.MethodPost: guarded(policies.CreateKeyPair, s.createKeyPair)},
		"/v2.1/os-keypairs/{name}": {http.MethodGet: guarded(policies.ShowKeyPair, s.showKeyPair),
			http.MethodDelete: guarded(policies.DeleteKeyPair, s.deleteKeyPair)},

		"/v2.1/os-availability-zone":        {http.MethodGet: guarded(policies.ListZones, s.listZones)},
		"/v2.1/os-availability-zone/detail": {http.MethodGet: guarded(policies.DetailZones, s.detailZones)},

		"/v2.1/os-quota-sets/{project}": {http.MethodGet: guarded(policies.ShowQuotas, s.showQuotas),
			http.MethodPut:    guarded(policies.UpdateQuotas, refused(noQuotas)),
			http.MethodDelete: guarded(policies.DeleteQuotas, refused(noQuotas))},
		"/v2.1/os-quota-sets/{project}/defaults": {http.MethodGet: guarded(policies.DefaultQuotas, s.defaultQuotas)},
		"/v2.1/os-quota-sets/{project}/detail":   {http.MethodGet: guarded(policies.DetailQuotas, s.detailQuotas)},
		"/v2.1/os-quota-class-sets/{class}": {http.MethodGet: guarded(policies.ShowQuotaClass, s.showQuotaClass),
			http.MethodPut: guarded(policies.UpdateQuotaClass, refused(noQuotas))},
		"/v2.1/limits":                           {http.MethodGet: guarded(policies.ShowLimits, s.showLimits)},
		"/v2.1/os-simple-tenant-usage":           {http.MethodGet: guarded(policies.ListUsage, s.listUsage)},
		"/v2.1/os-simple-tenant-usage/{project}": {http.MethodGet: guarded(policies.ShowUsage, s.showUsage)},
	}
}

// operatorRoutes returns the paths about hypervisors and hosts, and that for events of other services.
func (s *server) operatorRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/os-hypervisors":        {http.MethodGet: guarded(policies.ListHypervisors, s.listHypervisors)},
		"/v2.1/os-hypervisors/detail": {http.MethodGet: guarded(policies.DetailHypervisors, s.detailHypervisors)},
		"/v2.1/os-hypervisors/statistics": {
			http.MethodGet: guarded(policies.HypervisorStatistics, s.hypervisorStatistics)},
		"/v2.1/os-hypervisors/{id}":        {http.MethodGet: guarded(policies.ShowHypervisor, s.showHypervisor)},
		"/v2.1/os-hypervisors/{id}/uptime": {http.MethodGet: guarded(policies.HypervisorUptime, s.hypervisorUptime)},
		"/v2.1/os-hypervisors/{id}/search": {
			http.MethodGet: guarded(policies.SearchHypervisors, s.searchHypervisors(false))},
		"/v2.1/os-hypervisors/{id}/servers": {
			http.MethodGet: guarded(policies.HypervisorServers, s.searchHypervisors(true))},
		"/v2.1/os-server-external-events": {http.MethodPost: guarded(policies.ReportEvents, s.reportEvents)},
		"/v2.1/os-hosts":                  {http.MethodGet: guarded(policies.ListOSHosts, s.listOSHosts)},
		"/v2.1/os-hosts/{host}": {http.MethodGet: guarded(policies.ShowOSHost, s.showOSHost),
			http.MethodPut: guarded(policies.UpdateOSHost, refused(noPower))},
	}
}

// refusedServerPartRoutes returns the paths below a server whose resources Berth does not have.
func (s *server) refusedServerPartRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/servers/{id}/os-volume_attachments": {
			http.MethodGet:  guardedServer(policies.ListVolumes, s.emptyOfServer("volumeAttachments")),
			http.MethodPost: guardedServer(policies.AttachVolume, s.refusedOfServer(noVolumes))},
		"/v2.1/servers/{id}/os-volume_attachments/{volume}": {
			http.MethodGet:    guardedServer(policies.ShowVolume, s.refusedOfServer(noVolumes)),
			http.MethodPut:    guardedServer(policies.UpdateVolume, s.refusedOfServer(noVolumes)),
			http.MethodDelete: guardedServer(policies.DetachVolume, s.refusedOfServer(noVolumes))},
		"/v2.1/servers/{id}/os-interface": {
			http.MethodGet:  guardedServer(policies.ListInterfaces, s.listInterfaces),
			http.MethodPost: guardedServer(policies.AttachInterface, s.attachInterface)},
		"/v2.1/servers/{id}/os-interface/{port}": {
			http.MethodGet:    guardedServer(policies.ShowInterface, s.showInterface),
			http.MethodDelete: guardedServer(policies.DetachInterface, s.detachInterface)},
		"/v2.1/servers/{id}/os-security-groups": {
			http.MethodGet: guardedServer(policies.ListSecurityGroups, s.emptyOfServer("security_groups"))},
		"/v2.1/servers/{id}/remote-consoles": {
			http.MethodPost: guardedServer(policies.CreateConsole, s.refusedOfServer(noConsoles))},
	}
}

// refusedRoutes returns the other paths whose resources Berth does not have.
func refusedRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/os-aggregates": {http.MethodGet: guarded(policies.ListAggregates, empty("aggregates")),
			http.MethodPost: guarded(policies.CreateAggregate, refused(noAggregates))},
		"/v2.1/os-aggregates/{id}": {http.MethodGet: guarded(policies.ShowAggregate, refused(noAggregates)),
			http.MethodPut:    guarded(policies.UpdateAggregate, refused(noAggregates)),
			http.MethodDelete: guarded(policies.DeleteAggregate, refused(noAggregates))},
		"/v2.1/os-aggregates/{id}/action": {
			http.MethodPost: guarded(policies.AddAggregateHost, refused(noAggregates))},
		"/v2.1/os-server-groups": {http.MethodGet: guarded(policies.ListServerGroups, empty("server_groups")),
			http.MethodPost: guarded(policies.CreateServerGroup, refused(noServerGroups))},
		"/v2.1/os-server-groups/{id}": {http.MethodGet: guarded(policies.ShowServerGroup, refused(noServerGroups)),
			http.MethodDelete: guarded(policies.DeleteServerGroup, refused(noServerGroups))},
		"/v2.1/os-agents": {http.MethodGet: guarded(policies.ListAgents, empty("agents")),
			http.MethodPost: guarded(policies.CreateAgent, refused(noAgentBuilds))},
		"/v2.1/os-agents/{agent}": {http.MethodPut: guarded(policies.UpdateAgent, refused(noAgentBuilds)),
			http.MethodDelete: guarded(policies.DeleteAgent, refused(noAgentBuilds))},
		"/v2.1/flavors/{id}/os-flavor-access": {http.MethodGet: guarded(policies.ListFlavorAccess, refused(noAccess))},
		"/v2.1/flavors/{id}/action":           {http.MethodPost: guarded(policies.AddFlavorAccess, refused(noAccess))},
	}
}
