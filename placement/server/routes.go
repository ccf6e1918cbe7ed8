package server

import (
	"net/http"
	"time"

	api "github.com/openberth/berth/api/placement"
)

// routes returns the routes of the whole API.
func (s *Server) routes() []route {
	return append(append(s.ownRoutes(), resourceRoutes()...), candidateRoutes()...)
}

// ownRoutes returns the routes of what this package answers itself.
func (s *Server) ownRoutes() []route {
	type verbs = map[string]verb
	return []route{
		{Path: "/", Public: true, Methods: verbs{"GET": {Handle: (*call).versions}}},
		{Path: "", Public: true, Methods: verbs{"GET": {Handle: (*call).versions}}},
		{Path: "/berth/v1/usage-history", Methods: verbs{ // sums of the usages of all providers
			"GET": read(0, "resource_providers:usages", limited(s.usageHistory))}},
		{Path: "/berth/v1/events", Methods: verbs{ // events show on which hosts consumers are
			"GET": plain(0, "resource_providers:list", s.events)}},
	}
}

// versions handles GET /: it sends the version document. It needs no authentication.
func (c *call) versions() error {
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, object{"versions": []object{{
		"id": "v" + api.Oldest.String(), "status": "CURRENT",
		"min_version": api.Oldest.String(), "max_version": api.Latest.String(),
		"links": []api.Link{{Rel: "self", Href: ""}},
	}}})
}
