package actions

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
	"github.com/openberth/berth/fault"
)

// instanceActionRoutes returns the paths of the actions in the history of a server.
func instanceActionRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/os-instance-actions": {
			http.MethodGet: s.OfAnyServer(policies.ListActions, compute.DeletedActions, listActions),
		},
		"/v2.1/servers/{id}/os-instance-actions/{request}": {
			http.MethodGet: s.OfAnyServer(policies.ShowAction, compute.DeletedActions, showAction),
		},
	}
}

// listActions is GET /v2.1/servers/{id}/os-instance-actions: the actions in the history of a server, newest first.
// Nova's rule is os_compute_api:os-instance-actions:list.
func listActions(c *request.Call, found lifecycle.Server) error {
	past := found.PastActions()
	slices.Reverse(past)
	body := map[string]any{}
	if c.Has(compute.ActionPages) {
		var next []compute.Link
		var err error
		if past, next, err = actionPage(c, past); err != nil {
			return err
		}
		if next != nil {
			body["links"] = next
		}
	}
	views := make([]compute.InstanceAction, 0, len(past))
	for _, a := range past {
		views = append(views, instanceAction(c, found, a))
	}
	body["instanceActions"] = views
	return c.WriteJSON(http.StatusOK, body)
}

// actionPage returns the actions that changes-since, changes-before (2.66), marker and limit select (2.58), and the
// link to the next page.
func actionPage(c *request.Call, past []lifecycle.PastAction) ([]lifecycle.PastAction, []compute.Link, error) {
	q := c.R.URL.Query()
	known := []string{"limit", "marker", "changes-since"}
	if c.Has(compute.ChangesBefore) {
		known = append(known, "changes-before")
	}
	if err := request.CheckQuery(q, known...); err != nil {
		return nil, nil, err
	}
	limit, marker, err := c.ReadPage(q)
	if err != nil {
		return nil, nil, err
	}
	since, before, err := request.ChangesBetween(c, q)
	if err != nil {
		return nil, nil, err
	}
	past = slices.DeleteFunc(past, func(a lifecycle.PastAction) bool {
		return a.Updated().Before(since) || !before.IsZero() && a.Updated().After(before)
	})
	if marker != "" {
		at := slices.IndexFunc(past, func(a lifecycle.PastAction) bool { return a.By.Request == marker })
		if at < 0 {
			return nil, nil, fault.New(fault.Invalid, "marker [%s] not found", edge.Clip(marker))
		}
		past = past[at+1:]
	}
	if len(past) <= limit || limit == 0 {
		return past[:min(limit, len(past))], nil, nil
	}
	past = past[:limit]
	return past, c.NextLinks(limit, limit, past[limit-1].By.Request), nil
}

// showAction is GET /v2.1/servers/{id}/os-instance-actions/{request}. Nova's rules are
// os_compute_api:os-instance-actions:show, os_compute_api:os-instance-actions:events for the events before 2.51 and
// their texts since, and os_compute_api:os-instance-actions:events:details for their details (2.84).
func showAction(c *request.Call, found lifecycle.Server) error {
	id := c.R.PathValue("request")
	for _, a := range found.PastActions() {
		if a.By.Request != id {
			continue
		}
		view := instanceAction(c, found, a)
		texts, _ := c.Allowed(policies.ShowActionEvents, request.OwnerOf(found))
		if texts || c.Has(compute.ActionEvents) {
			details, _ := c.Allowed(policies.ShowActionDetails, request.OwnerOf(found))
			events := instanceEvents(c, found, a, texts, details)
			view.Events = &events
		}
		return c.WriteJSON(http.StatusOK, map[string]any{"instanceAction": view})
	}
	return fault.New(fault.NotFound, "Action for request_id %s on instance %s not found", edge.Clip(id), found.ID)
}

// instanceAction returns the view of an action without its events.
func instanceAction(c *request.Call, s lifecycle.Server, a lifecycle.PastAction) compute.InstanceAction {
	v := compute.InstanceAction{Action: a.Name, Server: s.ID, UserID: request.OrNull(a.By.User),
		ProjectID: request.OrNull(a.By.Project), Request: a.By.Request, Started: request.Micros(a.Begun)}
	if a.Failed {
		v.Message = request.OrNull("Error")
	}
	if c.Has(compute.ActionPages) {
		v.Updated = request.MicrosOrNull(a.Updated())
	}
	return v
}

// eventNames are the names of the events of actions, where they do not follow from the name of the action.
var eventNames = map[string]string{"create": "compute__do_build_and_run_instance",
	"delete": "compute_terminate_instance", "resize": "compute_finish_resize", "migrate": "compute_finish_resize",
	"confirmResize": "compute_confirm_resize", "revertResize": "compute_revert_resize",
	"live-migration": "compute_live_migration", "evacuate": "compute_rebuild_instance",
	"attach_interface": "compute_attach_interface", "detach_interface": "compute_detach_interface",
	"trigger_crash_dump": "compute_trigger_crash_dump", "createImage": "compute_snapshot_instance",
	"createBackup": "compute_backup_instance", "shelveOffload": "compute_shelve_offload_instance"}

// instanceEvents returns the events of an action. The first one is the whole action, by the name that Nova's event of
// it has. With texts, the entries of the history follow; they name hosts and providers, so by default only admins see
// them. With details the first event says why the action failed (2.84).
func instanceEvents(c *request.Call, s lifecycle.Server, a lifecycle.PastAction, texts,
	details bool) []compute.InstanceEvent {
	whole := compute.InstanceEvent{Event: cmp.Or(eventNames[a.Name], "compute_"+a.Name+"_instance"),
		Started: request.Micros(a.Begun)}
	if a.Ended {
		whole.Finished, whole.Result = request.MicrosOrNull(a.Updated()), request.OrNull("Success")
		if a.Failed {
			whole.Result = request.OrNull("Error")
		}
	}
	events := []compute.InstanceEvent{whole}
	for i, e := range a.Entries {
		if !texts {
			break
		}
		v := compute.InstanceEvent{Event: e.Text, Started: request.Micros(e.At)}
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
	for i := range events {
		addEventParts(c, &events[i], s, texts)
	}
	if details && events[0].Detailed != nil {
		events[0].Details = request.OrNull(c.WithoutHosts(s, a.Failure()))
	}
	return events
}

// addEventParts adds what the version and the caller's role show of an event.
func addEventParts(c *request.Call, v *compute.InstanceEvent, s lifecycle.Server, admin bool) {
	if admin {
		v.Traced = &compute.Traced{}
	}
	if c.Has(compute.ActionHost) {
		id := servers.HostID(s)
		if v.HostID = &id; admin {
			v.Host = request.OrNull(s.Shown().Host)
		}
	}
	if c.Has(compute.EventDetails) {
		v.Detailed = &compute.Detailed{}
	}
}
