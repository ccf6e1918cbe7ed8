package servers

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// instanceActionRoutes returns the paths of the actions in the history of a server.
func instanceActionRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/os-instance-actions": {
			http.MethodGet: s.OfAnyServer(policies.ListActions, compute.DeletedActions, s.listActions),
		},
		"/v2.1/servers/{id}/os-instance-actions/{request}": {
			http.MethodGet: s.OfAnyServer(policies.ShowAction, compute.DeletedActions, s.showAction),
		},
	}
}

// listActions is GET /v2.1/servers/{id}/os-instance-actions: the actions in the history of a server, newest first.
// Nova's rule is os_compute_api:os-instance-actions:list.
func (s *Handlers) listActions(c *request.Call, found lifecycle.Server) error {
	past := found.PastActions()
	slices.Reverse(past)
	views := make([]compute.InstanceAction, 0, len(past))
	for _, a := range past {
		views = append(views, instanceAction(c, found, a))
	}
	body := map[string]any{}
	if c.Has(compute.ActionPages) {
		var next []compute.Link
		var err error
		if views, next, err = actionPage(c, views); err != nil {
			return err
		}
		if next != nil {
			body["links"] = next
		}
	}
	body["instanceActions"] = views
	return c.WriteJSON(http.StatusOK, body)
}

// actionPage returns the actions that changes-since, marker and limit select (2.58), and the link to the next page.
func actionPage(c *request.Call, views []compute.InstanceAction) ([]compute.InstanceAction, []compute.Link, error) {
	q := c.R.URL.Query()
	limit, marker, err := c.ReadPage(q)
	if err != nil {
		return nil, nil, err
	}
	if text := q.Get("changes-since"); text != "" {
		since, err := request.ParseTime(text)
		if err != nil {
			return nil, nil, err
		}
		views = slices.DeleteFunc(views, func(v compute.InstanceAction) bool { return *v.Updated < request.Micros(since) })
	}
	if marker != "" {
		at := slices.IndexFunc(views, func(v compute.InstanceAction) bool { return v.Request == marker })
		if at < 0 {
			return nil, nil, fault.New(fault.Invalid, "marker [%s] not found", edge.Clip(marker))
		}
		views = views[at+1:]
	}
	if len(views) <= limit {
		return views, nil, nil
	}
	views = views[:limit]
	if limit == 0 {
		return views, nil, nil
	}
	return views, c.NextLinks(limit, limit, views[limit-1].Request), nil
}

// showAction is GET /v2.1/servers/{id}/os-instance-actions/{request}. Nova's rules are
// os_compute_api:os-instance-actions:show, and os_compute_api:os-instance-actions:events for the events before 2.51 and
// their texts since.
func (s *Handlers) showAction(c *request.Call, found lifecycle.Server) error {
	id := c.R.PathValue("request")
	for _, a := range found.PastActions() {
		view := instanceAction(c, found, a)
		if view.Request != id {
			continue
		}
		texts, _ := c.Allowed(policies.ShowActionEvents, request.OwnerOf(found))
		if texts || c.Has(compute.ActionEvents) {
			events := instanceEvents(a, texts)
			view.Events = &events
		}
		return c.WriteJSON(http.StatusOK, map[string]any{"instanceAction": view})
	}
	return fault.New(fault.NotFound, "Action for request_id %s on instance %s not found", edge.Clip(id), found.ID)
}

// instanceAction returns the view of an action without its events. The history has no request ids and no users: the id
// is derived from server, action and time, and the user is the owner of the server.
func instanceAction(c *request.Call, s lifecycle.Server, a lifecycle.PastAction) compute.InstanceAction {
	begun := a.Entries[0].At
	if a.Name == "create" {
		begun = s.Created
	}
	key := s.ID + " " + a.Name + " " + begun.UTC().Format(time.RFC3339Nano)
	v := compute.InstanceAction{Action: a.Name, Server: s.ID, UserID: s.User, ProjectID: s.Project,
		Request: "req-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(key)).String(), Started: request.Micros(begun)}
	if a.Failed {
		v.Message = request.OrNull("Error")
	}
	if c.Has(compute.ActionPages) {
		v.Updated = request.MicrosOrNull(a.Entries[len(a.Entries)-1].At)
	}
	return v
}

// instanceEvents returns the entries of an action as events. The texts name hosts and providers, so by default only
// admins see them; others see numbered steps.
func instanceEvents(a lifecycle.PastAction, texts bool) []compute.InstanceEvent {
	events := make([]compute.InstanceEvent, 0, len(a.Entries))
	for i, e := range a.Entries {
		v := compute.InstanceEvent{Event: a.Name + " step " + strconv.Itoa(i+1), Started: request.Micros(e.At)}
		if texts {
			v.Event = e.Text
		}
		switch last := i == len(a.Entries)-1; {
		case !last:
			v.Finished = request.MicrosOrNull(a.Entries[i+1].At)
		case a.Ended:
			v.Finished = request.MicrosOrNull(e.At)
		}
		if v.Finished != nil {
			v.Result = request.OrNull("Success")
		}
		if e.IsFailure() {
			v.Result = request.OrNull("Error")
		}
		events = append(events, v)
	}
	return events
}
