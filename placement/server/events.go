package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/events"
)

// maxWatchers is the number of clients that watch events at one time.
const maxWatchers = 128

// streamTime is how long a stream lasts: then the client connects again, and its token and role are checked again.
const streamTime = time.Hour

// events handles GET /berth/v1/events: a stream of the changes of providers, inventories and allocations, by all
// processes that use the database. Only who may list providers may watch them: they show on which hosts consumers are.
func (c *call) events() error {
	q, err := c.query()
	if err != nil {
		return err
	}
	filter, whole, err := eventFilter(q)
	if err != nil {
		return err
	}
	select {
	case c.server.watchers <- struct{}{}:
		defer func() { <-c.server.watchers }()
	default:
		return edge.StatusErrorf(http.StatusServiceUnavailable, "%d clients watch events already; try again later",
			maxWatchers)
	}
	log, leave, err := c.server.follower.Log(c.Context())
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := context.WithTimeout(rest.Unlimited(c.R.Context()), streamTime)
	defer stop()
	return events.Stream(ctx, c.W, log, c.R.Header.Get("Last-Event-ID"), filter, whole)
}

// eventFilter parses the query of GET /berth/v1/events.
func eventFilter(q url.Values) (f events.Filter, whole bool, err error) {
	for key, values := range q {
		list := strings.Split(strings.Join(values, ","), ",")
		switch key {
		case "kind":
			f.Kinds = list
			for _, kind := range list {
				if !slices.Contains(events.Kinds(), kind) {
					return f, false, fault.New(fault.Invalid, "Invalid query string parameters: kind=%q is not one of %s", kind,
						strings.Join(events.Kinds(), ", "))
				}
			}
		case "host":
			f.Hosts = list
		case "project":
			f.Projects = list
		case "class":
			f.Classes = list
		case "state":
			if whole, err = strconv.ParseBool(list[0]); err != nil {
				return f, false, fault.New(fault.Invalid, "Invalid query string parameters: state=%q is not true or false",
					list[0])
			}
		default:
			return f, false, fault.New(fault.Invalid, "Invalid query string parameters: %q is not one of kind, host, "+
				"project, class, state", key)
		}
	}
	return f, whole, nil
}
