package server

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/fault"
)

// listActions is GET /v2.1/servers/{id}/os-instance-actions: the actions in the history of a server, newest first.
// Nova's rule is os_compute_api:os-instance-actions:list.
func (s *server) listActions(c *call) error {
	found, err := s.visibleServer(c, c.version.Has(compute.DeletedActions))
	if err != nil {
		return err
	}
	past := found.PastActions()
	slices.Reverse(past)
	views := make([]compute.InstanceAction, 0, len(past))
	for _, a := range past {
		views = append(views, c.instanceAction(found, a))
	}
	body := map[string]any{}
	if c.version.Has(compute.ActionPages) {
		var next []compute.Link
		if views, next, err = c.actionPage(views); err != nil {
			return err
		}
		if next != nil {
			body["links"] = next
		}
	}
	body["instanceActions"] = views
	return c.writeJSON(http.StatusOK, body)
}

// actionPage returns the actions that changes-since, marker and limit select (2.58), and the link to the next page.
func (c *call) actionPage(views []compute.InstanceAction) ([]compute.InstanceAction, []compute.Link, error) {
	q := c.R.URL.Query()
	limit, marker, err := c.readPage(q)
	if err != nil {
		return nil, nil, err
	}
	if text := q.Get("changes-since"); text != "" {
		since, err := parseTime(text)
		if err != nil {
			return nil, nil, err
		}
		views = slices.DeleteFunc(views, func(v compute.InstanceAction) bool { return *v.Updated < apiMicros(since) })
	}
	if marker != "" {
		at := slices.IndexFunc(views, func(v compute.InstanceAction) bool { return v.Request == marker })
		if at < 0 {
			return nil, nil, fault.New(fault.Invalid, "marker [%s] not found", clip(marker))
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
	return views, c.nextLinks(limit, limit, views[limit-1].Request), nil
}

// showAction is GET /v2.1/servers/{id}/os-instance-actions/{request}. Nova's rules are
// os_compute_api:os-instance-actions:show, and os_compute_api:os-instance-actions:events for the events before 2.51 and
// their texts since.
func (s *server) showAction(c *call) error {
	found, err := s.visibleServer(c, c.version.Has(compute.DeletedActions))
	if err != nil {
		return err
	}
	request := c.R.PathValue("request")
	for _, a := range found.PastActions() {
		view := c.instanceAction(found, a)
		if view.Request != request {
			continue
		}
		texts, _ := c.Allowed(policies.ShowActionEvents, ownerOf(found))
		if texts || c.version.Has(compute.ActionEvents) {
			events := instanceEvents(a, texts)
			view.Events = &events
		}
		return c.writeJSON(http.StatusOK, map[string]any{"instanceAction": view})
	}
	return fault.New(fault.NotFound, "Action for request_id %s on instance %s not found", clip(request), found.ID)
}

// instanceAction returns the view of an action without its events. The history has no request ids and no users: the id
// is derived from server, action and time, and the user is the owner of the server.
func (c *call) instanceAction(s lifecycle.Server, a lifecycle.PastAction) compute.InstanceAction {
	begun := a.Entries[0].At
	if a.Name == "create" {
		begun = s.Created
	}
	key := s.ID + " " + a.Name + " " + begun.UTC().Format(time.RFC3339Nano)
	v := compute.InstanceAction{Action: a.Name, Server: s.ID, UserID: s.User, ProjectID: s.Project,
		Request: "req-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(key)).String(), Started: apiMicros(begun)}
	if a.Failed {
		v.Message = orNull("Error")
	}
	if c.version.Has(compute.ActionPages) {
		v.Updated = micros(a.Entries[len(a.Entries)-1].At)
	}
	return v
}

// instanceEvents returns the entries of an action as events. The texts name hosts and providers, so by default only
// admins see them; others see numbered steps.
func instanceEvents(a lifecycle.PastAction, texts bool) []compute.InstanceEvent {
	events := make([]compute.InstanceEvent, 0, len(a.Entries))
	for i, e := range a.Entries {
		v := compute.InstanceEvent{Event: a.Name + " step " + strconv.Itoa(i+1), Started: apiMicros(e.At)}
		if texts {
			v.Event = e.Text
		}
		switch last := i == len(a.Entries)-1; {
		case !last:
			v.Finished = micros(a.Entries[i+1].At)
		case a.Ended:
			v.Finished = micros(e.At)
		}
		if v.Finished != nil {
			v.Result = orNull("Success")
		}
		if e.IsFailure() {
			v.Result = orNull("Error")
		}
		events = append(events, v)
	}
	return events
}
