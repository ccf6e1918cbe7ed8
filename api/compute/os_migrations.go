package compute

import (
	"context"
	"net/http"
	"net/url"
)

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
