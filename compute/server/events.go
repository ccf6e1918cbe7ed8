package server

import (
	"log/slog"
	"net/http"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/compute/events"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/condition"
)

// HostAgents is what events show of the agents of hosts; *presence.Agents implements it.
type HostAgents interface {
	IsSilent(host string) bool
	StartFailure(host string) presence.StartFailure
	NotFollowing(host string) string
}

// NewFeed returns the events of compute, for Options.Feed. Its Run follows the database.
func NewFeed(store events.Store, agents HostAgents, conditions func(host string) []condition.Condition,
	log *slog.Logger) *eventstream.Feed {
	source := events.NewSource(store, func(host string) events.Observed {
		return events.Observed{Silent: agents.IsSilent(host) || agents.StartFailure(host).Why != "",
			Behind: agents.NotFollowing(host) != "", Conditions: conditions(host)}
	})
	return &eventstream.Feed{Follower: eventstream.NewFollower(source, log), Kinds: events.Kinds(), Classes: true}
}

// eventRoutes returns the path of the events.
func eventRoutes(feed *eventstream.Feed) request.Routes {
	if feed == nil {
		return nil
	}
	return request.Routes{"/berth/v1/events": {http.MethodGet: request.Guarded(policies.WatchEvents,
		func(c *request.Call) error {
			all, _ := c.Allowed(policies.WatchAllEvents, c.Owner())
			return feed.Serve(&c.Call, eventstream.Access{Project: c.Who.Project, Own: !all})
		})}}
}
