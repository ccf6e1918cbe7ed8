package server

import (
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
	return method{Spec: edge.Spec{Rule: rule, Quiet: true}, Handle: func(c *call) error {
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

// guardedRoutes returns the paths that need a token. Flavors have no rule, as in Nova: everybody may read them.
func (s *server) guardedRoutes() map[string]methods {
	return map[string]methods{
		"/v2.1/servers": {http.MethodGet: guarded(policies.ListServers, s.listServers),
			http.MethodPost: guarded(policies.CreateServer, s.createServers)},
		"/v2.1/servers/detail": {http.MethodGet: guarded(policies.DetailServers, s.detailServers)},
		"/v2.1/servers/{id}": {http.MethodGet: guardedServer(policies.ShowServer, s.showServer),
			http.MethodDelete: guardedServer(policies.DeleteServer, s.deleteServer)},

		"/v2.1/servers/{id}/action":     {http.MethodPost: open(s.act)}, // each action has its rule
		"/v2.1/servers/{id}/migrations": {http.MethodGet: guarded(policies.ListServerMigrations, s.serverMigrations)},
		"/v2.1/os-migrations":           {http.MethodGet: guarded(policies.ListMigrations, s.listMigrations)},
		"/v2.1/os-services":             {http.MethodGet: guarded(policies.ListServices, s.listServices)},
		"/v2.1/os-services/force-down":  {http.MethodPut: guarded(policies.UpdateService, s.forceDown)},
		"/v2.1/os-services/enable":      {http.MethodPut: guarded(policies.UpdateService, s.enableService)},
		"/v2.1/os-services/disable":     {http.MethodPut: guarded(policies.UpdateService, s.disableService)},
		"/v2.1/os-services/disable-log-reason": {
			http.MethodPut: guarded(policies.UpdateService, s.disableServiceWithReason)},
		"/v2.1/os-services/{service}": {http.MethodPut: guarded(policies.UpdateService, s.updateService)},

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
		"/berth/v1/hosts/{host}/allocations": {http.MethodGet: guarded(policies.AuditHost, s.hostAllocations),
			http.MethodPost: guarded(policies.HealHost, s.healHost)},
		"/berth/v1/hosts/{host}/drain": {http.MethodGet: guarded(policies.PlanDrain, s.planDrain)},
		"/berth/v1/hosts/{host}/down": {http.MethodPut: guarded(policies.SetHostDown, s.hostDown),
			http.MethodDelete: guarded(policies.SetHostUp, s.hostUp)},
		"/berth/v1/hosts/{host}/account": {http.MethodPut: guarded(policies.BindHost, s.bindHost),
			http.MethodDelete: guarded(policies.UnbindHost, s.unbindHost)},
		"/berth/v1/hosts/{host}/devices/{address}/clean": {
			http.MethodPost: guarded(policies.CleanDevice, s.cleanDevice)},
		"/berth/v1/hosts/{host}/assignments":     {http.MethodGet: s.byAgents(policies.ReadAssignments, s.watch)},
		"/berth/v1/hosts/{host}/guests/{server}": {http.MethodPut: s.byAgents(policies.ReportGuest, s.putGuest)},
		"/berth/v1/devices":                      {http.MethodGet: guarded(policies.ListDevices, s.listDevices)},
	}
}
