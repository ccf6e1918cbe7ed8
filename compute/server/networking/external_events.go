package networking

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// eventRoutes returns the paths of events of other services.
func eventRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/os-server-external-events": {http.MethodPost: request.Guarded(policies.ReportEvents, s.reportEvents)},
	}
}

// The events of a network service, and the statuses of an event.
var (
	networkEvents = []string{compute.PortPlugged, compute.PortUnplugged, compute.NetworkChanged, compute.PortDeleted}
	eventStatuses = []string{"completed", "failed", "in-progress"}
)

// maxEvents is the number of events of one request.
const maxEvents = 1000

// reportEvents is POST /v2.1/os-server-external-events. Each event has a code in the answer: 200 if it is accepted, 400
// without the id of the port that was deleted, 404 without a server, 409 if the server has too many deletions that are
// not done yet, 422 without a host, except for a deleted port of the server. The status is 200 if all are accepted,
// else 207.
func (s *Handlers) reportEvents(c *request.Call) error {
	events, err := readEvents(c)
	if err != nil {
		return err
	}
	status := http.StatusOK
	for i, e := range events {
		code, err := s.applyEvent(c, e)
		if err != nil {
			return err
		}
		if events[i].Code = code; code != http.StatusOK {
			events[i].Status, status = "failed", http.StatusMultiStatus
		}
	}
	return c.WriteJSON(status, map[string]any{"events": events})
}

// readEvents reads the events of a request.
func readEvents(c *request.Call) (events []compute.ExternalEvent, err error) {
	var body map[string]json.RawMessage
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return nil, err
	}
	outer := c.NewObject("the body", body)
	var list []map[string]json.RawMessage
	outer.Require("events")
	if outer.Decode("events", &list, "a list of events") && (len(list) == 0 || len(list) > maxEvents) {
		outer.Invalid("events", "it has %d elements; from 1 to %d are allowed", len(list), maxEvents)
	}
	if err := outer.Finish(); err != nil {
		return nil, err
	}
	for _, keys := range list {
		o := c.NewObject("events", keys)
		e := compute.ExternalEvent{Status: "completed"}
		o.Require("name", "server_uuid")
		o.Text("name", &e.Name, 255)
		o.Text("server_uuid", &e.Server, 36)
		o.Text("tag", &e.Tag, 255)
		o.Text("status", &e.Status, 255)
		if _, err := uuid.Parse(e.Server); err != nil {
			o.Invalid("server_uuid", "it is %q; give a UUID", edge.Clip(e.Server))
		}
		if !slices.Contains(networkEvents, e.Name) {
			o.Invalid("name", "it is %q; give one of %q: other services are not supported", edge.Clip(e.Name),
				networkEvents)
		}
		if !slices.Contains(eventStatuses, e.Status) {
			o.Invalid("status", "it is %q; give one of %q", edge.Clip(e.Status), eventStatuses)
		}
		if err := o.Finish(); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// applyEvent applies one event and returns its code. Only a deleted port needs work: compute binds ports before it
// builds a guest, and reads their addresses when it shows them. The deletion is recorded in the server, so the event is
// accepted whatever the server does now.
func (s *Handlers) applyEvent(c *request.Call, e compute.ExternalEvent) (code int, err error) {
	found, err := s.Store.Read(c.R.Context(), e.Server)
	switch {
	case fault.Is(err, fault.NotFound) || err == nil && !found.Ended.IsZero():
		return http.StatusNotFound, nil
	case err != nil:
		return 0, err
	case e.Name != compute.PortDeleted || !found.MayHavePort(e.Tag):
		if found.Host == "" {
			return http.StatusUnprocessableEntity, nil
		}
		if e.Name == compute.PortDeleted && e.Tag == "" {
			return http.StatusBadRequest, nil
		}
		return http.StatusOK, nil
	case len(found.DeletedPorts) >= lifecycle.MaxDeletedPorts:
		return http.StatusConflict, nil
	}
	err = s.Conductor.ChangePort(c.R.Context(), found.ID, lifecycle.PortDeleted{Port: e.Tag})
	if fault.Is(err, fault.NotFound) {
		return http.StatusNotFound, nil
	}
	return http.StatusOK, err
}
