package server

import (
	"net/http"
	"strconv"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// listMigrations is GET /v2.1/os-migrations.
func (s *server) listMigrations(c *call) error {
	q := c.R.URL.Query()
	limit, _, err := c.readPage(q)
	if err != nil {
		return err
	}
	name, err := hostFilter(q)
	if err != nil {
		return err
	}
	list, err := s.Store.Migrations(c.R.Context(), store.MigrationFilter{Server: q.Get("instance_uuid"),
		Status: q.Get("status"), Kind: q.Get("migration_type"), Host: name, Limit: max(limit, 1)})
	if err != nil {
		return err
	}
	views := make([]compute.Migration, 0, len(list))
	for _, m := range list {
		views = append(views, c.migration(m))
	}
	return c.writeJSON(http.StatusOK, map[string]any{"migrations": views})
}

// serverMigrations is GET /v2.1/servers/{id}/migrations (2.23): the migrations in progress.
func (s *server) serverMigrations(c *call) error {
	views, err := s.migrationsInProgress(c)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"migrations": views})
}

// serverMigration is GET /v2.1/servers/{id}/migrations/{migration} (2.23): one migration in progress, by its number.
// Nova's rule is os_compute_api:servers:migrations:show.
func (s *server) serverMigration(c *call) error {
	views, err := s.migrationsInProgress(c)
	if err != nil {
		return err
	}
	for _, v := range views {
		if strconv.FormatInt(v.ID, 10) == c.R.PathValue("migration") {
			return c.writeJSON(http.StatusOK, map[string]any{"migration": v})
		}
	}
	return fault.New(fault.NotFound, "In-progress migration %s is not found for server %s.",
		clip(c.R.PathValue("migration")), c.R.PathValue("id"))
}

// migrationsInProgress lists the migrations in progress of the server of the path (2.23).
func (s *server) migrationsInProgress(c *call) ([]compute.Migration, error) {
	if !c.version.Has(compute.ServerMigrations) {
		return nil, unknownPath(c)
	}
	found, err := s.visibleServer(c, false)
	if err != nil {
		return nil, err
	}
	list, err := s.Store.Migrations(c.R.Context(), store.MigrationFilter{Server: found.ID})
	if err != nil {
		return nil, err
	}
	views := []compute.Migration{}
	for _, m := range list {
		if found.Move != nil && found.Migration.ID == m.ID {
			v := c.migration(m)
			v.Server = found.ID
			views = append(views, v)
		}
	}
	return views, nil
}

func (c *call) migration(m store.Migration) compute.Migration {
	v := compute.Migration{ID: m.Number, Instance: m.Server, Status: m.Status, SourceHost: orNull(m.From),
		SourceNode: orNull(m.From), DestHost: orNull(m.To), DestNode: orNull(m.To), OldFlavor: m.OldFlavor,
		NewFlavor: m.NewFlavor,
		Created:   compute.Time{Time: m.Begun}, Updated: compute.Time{Time: m.Updated}}
	if c.version.Has(compute.ServerMigrations) {
		v.Kind = string(m.Kind)
	}
	if c.version.Has(compute.MigrationUUID) {
		v.UUID = m.ID
	}
	return v
}
