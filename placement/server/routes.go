package server

import (
	"net/http"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/server/candidates"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/server/resources"
)

// routes returns the routes of the whole API.
func (s *Server) routes() []request.Route {
	return append(append(s.ownRoutes(), resources.Routes()...), candidates.Routes()...)
}

// ownRoutes returns the routes of what this package answers itself.
func (s *Server) ownRoutes() []request.Route {
	type verbs = map[string]request.Verb
	return []request.Route{
		{Path: "/", Public: true, Methods: verbs{"GET": {Handle: versions}}},
		{Path: "", Public: true, Methods: verbs{"GET": {Handle: versions}}},
		{Path: "/berth/v1/usage-history", Methods: verbs{ // sums of the usages of all providers
			"GET": request.Read(0, "resource_providers:usages", request.Limited(s.usageHistory))}},
		{Path: "/berth/v1/events", Methods: verbs{ // events show on which hosts consumers are
			"GET": request.Plain(0, "resource_providers:list", s.events)}},
	}
}

// versions handles GET /: it sends the version document. It needs no authentication.
func versions(c *request.Call) error {
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusOK, request.Object{"versions": []request.Object{{
		"id": "v" + api.Oldest.String(), "status": "CURRENT",
		"min_version": api.Oldest.String(), "max_version": api.Latest.String(),
		"links": []api.Link{{Rel: "self", Href: ""}},
	}}})
}
