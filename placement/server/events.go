package server

import (
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/placement/server/request"
)

// events handles GET /berth/v1/events: a stream of the changes of providers, inventories and allocations, by all
// processes that use the database. Only who may list providers may watch them: they show on which hosts consumers are.
func (s *Server) events(c *request.Call) error {
	return s.feed.Serve(&c.Call, eventstream.Access{Project: c.Who.Project})
}
