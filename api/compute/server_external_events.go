package compute

import (
	"context"
	"net/http"
)

// The names of the events that a network service reports.
const (
	PortPlugged    = "network-vif-plugged"
	PortUnplugged  = "network-vif-unplugged"
	NetworkChanged = "network-changed"
	PortDeleted    = "network-vif-deleted"
)

// ExternalEvent is an event that another service reports about a server. The answer has the code of each event: an HTTP
// status, 200 for one that is accepted.
type ExternalEvent struct {
	Name   string `json:"name"`
	Server string `json:"server_uuid"`
	Tag    string `json:"tag,omitempty"`    // of a port: its id
	Status string `json:"status,omitempty"` // completed, failed or in-progress; empty: completed
	Code   int    `json:"code,omitempty"`   // in answers
}

// ReportEvents reports events and returns them with their codes. An older Nova returns fault.NotFound if none is
// about a server that has a host; Berth and newer ones return the codes of the events.
func (c *Client) ReportEvents(ctx context.Context, events ...ExternalEvent) ([]ExternalEvent, error) {
	var out struct {
		Events []ExternalEvent `json:"events"`
	}
	_, err := c.REST.Do(ctx, http.MethodPost, "/v2.1/os-server-external-events", map[string]any{"events": events}, &out)
	return out.Events, err
}
