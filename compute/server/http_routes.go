package server

import "net/http"

// routes returns the handlers of all paths. {…} is one segment.
func (s *server) routes() map[string]methods {
	return map[string]methods{
		"/":         {public: unknownPath},
		"/{$}":      {public: nil, http.MethodGet: showVersions},
		"/v2.1":     {public: nil, http.MethodGet: showVersion},
		"/v2.1/{$}": {public: nil, http.MethodGet: showVersion},

		healthPath: {public: nil, http.MethodGet: s.healthz},

		"/v2.1/servers":        {http.MethodGet: s.listServers, http.MethodPost: s.createServers},
		"/v2.1/servers/detail": {http.MethodGet: s.detailServers},
		"/v2.1/servers/{id}":   {http.MethodGet: s.showServer, http.MethodDelete: s.deleteServer},

		"/v2.1/servers/{id}/action":     {http.MethodPost: s.act},
		"/v2.1/servers/{id}/migrations": {http.MethodGet: admin(s.serverMigrations)},
		"/v2.1/os-migrations":           {http.MethodGet: admin(s.listMigrations)},
		"/v2.1/os-services":             {http.MethodGet: admin(s.listServices)},
		"/v2.1/os-services/force-down":  {http.MethodPut: admin(s.forceDown)},
		"/v2.1/os-services/{service}":   {http.MethodPut: admin(s.updateService)},

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
		"/berth/v1/hosts/{host}": {http.MethodPut: s.agent(s.putReport),
			http.MethodDelete: admin(s.forgetHost)},
		"/berth/v1/hosts/{host}/allocations": {http.MethodGet: admin(s.hostAllocations),
			http.MethodPost: admin(s.healHost)},
		"/berth/v1/hosts/{host}/down": {http.MethodPut: admin(s.hostDown),
			http.MethodDelete: admin(s.hostUp)},
		"/berth/v1/hosts/{host}/account": {http.MethodPut: admin(s.bindHost),
			http.MethodDelete: admin(s.unbindHost)},
		"/berth/v1/hosts/{host}/devices/{address}/clean": {http.MethodPost: admin(s.cleanDevice)},
		"/berth/v1/hosts/{host}/assignments":             {http.MethodGet: s.agent(s.watch)},
		"/berth/v1/hosts/{host}/guests/{server}":         {http.MethodPut: s.agent(s.putGuest)},
		"/berth/v1/devices":                              {http.MethodGet: service(s.listDevices)},
	}
}
