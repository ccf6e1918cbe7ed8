package compute

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// Migration is one move of a server, as operators see it.
type Migration struct {
	MigrationState
	Instance  string `json:"instance_uuid"`
	Kind      string `json:"migration_type,omitempty"` // 2.23
	OldFlavor *int32 `json:"old_instance_type_id"`     // a number for the flavor
	NewFlavor *int32 `json:"new_instance_type_id"`
	Links     []Link `json:"links,omitempty"` // 2.23, of live migrations in progress
}

// ServerMigration is one live migration in progress of a server (2.23). How much is copied is not known.
type ServerMigration struct {
	MigrationState
	Server          string `json:"server_uuid"`
	MemoryTotal     *int64 `json:"memory_total_bytes"`
	MemoryProcessed *int64 `json:"memory_processed_bytes"`
	MemoryRemaining *int64 `json:"memory_remaining_bytes"`
	DiskTotal       *int64 `json:"disk_total_bytes"`
	DiskProcessed   *int64 `json:"disk_processed_bytes"`
	DiskRemaining   *int64 `json:"disk_remaining_bytes"`
}

// MigrationState is what both views of a move have.
type MigrationState struct {
	ID         int64   `json:"id"`
	UUID       string  `json:"uuid,omitempty"` // 2.59; the consumer that holds the source's devices
	Status     string  `json:"status"`         // such as migrating, finished, confirmed, error
	SourceHost *string `json:"source_compute"`
	SourceNode *string `json:"source_node"`
	DestHost   *string `json:"dest_compute"`
	DestNode   *string `json:"dest_node"`
	Dest       *string `json:"dest_host"` // an address; Berth has none
	Created    string  `json:"created_at"`
	Updated    *string `json:"updated_at"`
	*MigrationOf
}

// MigrationOf is the caller that has requested a move (2.80).
type MigrationOf struct {
	UserID    *string `json:"user_id"`
	ProjectID *string `json:"project_id"`
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

// AbortMigration aborts a live migration of a server, by its number. The server stays on its host, unless the migration
// is complete before.
func (c *Client) AbortMigration(ctx context.Context, server string, number int64) error {
	_, err := c.REST.Do(ctx, http.MethodDelete, migrationPath(server, number), nil, nil)
	return err
}

// ForceMigration makes a live migration of a server complete, by its number, even if its guest is paused for that.
func (c *Client) ForceMigration(ctx context.Context, server string, number int64) error {
	_, err := c.REST.Do(ctx, http.MethodPost, migrationPath(server, number)+"/action",
		map[string]any{"force_complete": nil}, nil)
	return err
}

func migrationPath(server string, number int64) string {
	return fmt.Sprintf("/v2.1/servers/%s/migrations/%d", url.PathEscape(server), number)
}
