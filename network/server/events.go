package server

import (
	"log/slog"
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/network/events"
	"github.com/openberth/berth/network/policies"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

// NewFeed returns the events of the network service, for Options.Feed. Its Run follows the database.
func NewFeed(s *store.Store, log *slog.Logger) *eventstream.Feed {
	return &eventstream.Feed{Follower: eventstream.NewFollower(events.NewSource(s), log), Kinds: events.Kinds()}
}

// eventRoutes returns the path of the events.
func eventRoutes(feed *eventstream.Feed) []edge.Route[*request.Call] {
	if feed == nil {
		return nil
	}
	return []edge.Route[*request.Call]{{Path: "/berth/v1/events", Methods: request.Methods{http.MethodGet: {
		Spec: edge.Spec{Rule: policies.WatchEvents}, Handle: func(c *request.Call) error {
			all, _ := c.Allowed(policies.WatchAllEvents, c.Target(c.Who.Project, nil))
			return feed.Serve(&c.Call, eventstream.Access{Project: c.Who.Project, Own: !all})
		}}}}}
}
