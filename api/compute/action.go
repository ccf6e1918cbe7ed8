package compute

import (
	"context"
	"net/http"
	"net/url"
)

// Binary is OpenStack's name of the service of a host.
const Binary = "nova-compute"

// Migration is one move of a server, as operators see it.
type Migration struct {
	ID         int64   `json:"id"`
	UUID       string  `json:"uuid,omitempty"` // 2.59; the consumer that holds the source's devices
	Instance   string  `json:"instance_uuid"`
	Server     string  `json:"server_uuid,omitempty"` // in the list of one server
	Status     string  `json:"status"`                // such as migrating, finished, confirmed, error
	Kind       string  `json:"migration_type,omitempty"`
	SourceHost *string `json:"source_compute"`
	SourceNode *string `json:"source_node"`
	DestHost   *string `json:"dest_compute"`
	DestNode   *string `json:"dest_node"`
	Dest       *string `json:"dest_host"` // an address; Berth has none
	OldFlavor  string  `json:"old_instance_type_id"`
	NewFlavor  string  `json:"new_instance_type_id"`
	Created    Time    `json:"created_at"`
	Updated    Time    `json:"updated_at"`
}

// ServiceDoc is the agent of a host, as operators see it.
type ServiceDoc struct {
	ID         any     `json:"id,omitempty"` // a number, since 2.53 a UUID
	Binary     string  `json:"binary"`
	Host       string  `json:"host"`
	Zone       string  `json:"zone,omitempty"`
	Status     string  `json:"status,omitempty"`
	State      string  `json:"state,omitempty"` // up or down
	Updated    *string `json:"updated_at,omitempty"`
	Reason     *string `json:"disabled_reason,omitempty"`
	ForcedDown *bool   `json:"forced_down,omitempty"` // 2.11
}

// Act requests an action on a server, by its key and arguments. It returns as soon as the request is recorded.
func (c *Client) Act(ctx context.Context, id, action string, args map[string]any) error {
	body := map[string]any{action: nil}
	if args != nil {
		body[action] = args
	}
	_, err := c.REST.Do(ctx, http.MethodPost, "/v2.1/servers/"+url.PathEscape(id)+"/action", body, nil)
	return err
}

// Migrations lists moves, newest first; of one server if its id is given.
func (c *Client) Migrations(ctx context.Context, server string) ([]Migration, error) {
	var out struct {
		Migrations []Migration `json:"migrations"`
	}
	path := "/v2.1/os-migrations"
	if server != "" {
		path += "?" + url.Values{"instance_uuid": {server}}.Encode()
	}
	_, err := c.REST.Do(ctx, http.MethodGet, path, nil, &out)
	return out.Migrations, err
}

// HostDown declares a host permanently dead, or reverses that. down releases the allocations of leftovers on the host.
func (c *Client) HostDown(ctx context.Context, host string, down bool) error {
	method := http.MethodPut
	if !down {
		method = http.MethodDelete
	}
	_, err := c.REST.Do(ctx, method, "/berth/v1/hosts/"+url.PathEscape(host)+"/down", nil, nil)
	return err
}
