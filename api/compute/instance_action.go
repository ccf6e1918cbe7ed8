package compute

import (
	"context"
	"net/http"
	"net/url"
)

// InstanceAction is an action on a server, as the history of the server has it.
type InstanceAction struct {
	Action    string           `json:"action"` // create, delete, reboot, …
	Server    string           `json:"instance_uuid"`
	Request   string           `json:"request_id"` // of the request that began it
	UserID    *string          `json:"user_id"`    // the caller of that request
	ProjectID *string          `json:"project_id"`
	Started   string           `json:"start_time"`           // 2006-01-02T15:04:05.000000
	Message   *string          `json:"message"`              // "Error" if it failed
	Updated   *string          `json:"updated_at,omitempty"` // 2.58
	Events    *[]InstanceEvent `json:"events,omitempty"`     // of one action: admins, and all since 2.51
}

// InstanceEvent is a whole action, or one entry in the history of a server, as an event of an action.
type InstanceEvent struct {
	Event    string  `json:"event"`
	Started  string  `json:"start_time"`
	Finished *string `json:"finish_time"`      // when the next entry began; null while the action is in progress
	Result   *string `json:"result"`           // Success, Error, or null
	HostID   *string `json:"hostId,omitempty"` // 2.62
	Host     *string `json:"host,omitempty"`   // 2.62, for admins
	*Traced
	*Detailed
}

// Traced is a part of InstanceEvent for admins.
type Traced struct {
	Traceback *string `json:"traceback"` // null: Berth has none
}

// Detailed is a part of InstanceEvent since 2.84.
type Detailed struct {
	Details *string `json:"details"` // why the action failed; null for others than admins
}

// InstanceActions lists the actions on a server, newest first, without their events.
func (c *Client) InstanceActions(ctx context.Context, server string) ([]InstanceAction, error) {
	var out struct {
		Actions []InstanceAction `json:"instanceActions"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, actionsPath(server, ""), nil, &out)
	return out.Actions, err
}

// InstanceAction reads one action on a server with its events, by the id of its request.
func (c *Client) InstanceAction(ctx context.Context, server, request string) (InstanceAction, error) {
	var out struct {
		Action InstanceAction `json:"instanceAction"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, actionsPath(server, request), nil, &out)
	return out.Action, err
}

func actionsPath(server, request string) string {
	path := "/v2.1/servers/" + url.PathEscape(server) + "/os-instance-actions"
	if request != "" {
		path += "/" + url.PathEscape(request)
	}
	return path
}
