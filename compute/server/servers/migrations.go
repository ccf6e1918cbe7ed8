package servers

import (
	"net/http"
	"strconv"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

const noAbort = "Berth cannot abort or force a move in progress; delete the server, or wait for the end of the move"

// migrationRoutes returns the paths of migrations: all of them, and those of a server in progress (2.23).
func migrationRoutes(s *Handlers) request.Routes {
	inProgress := func(rule string, handle func(*request.Call, lifecycle.Server) error) request.Method {
		return request.Since(compute.ServerMigrations, request.Guarded(rule, s.OfServer("", handle).Handle))
	}
	refused := func(rule string) request.Method {
		return request.Guarded(rule, s.RefusedOfServer("", noAbort).Handle)
	}
	return request.Routes{
		"/v2.1/os-migrations": {http.MethodGet: request.Guarded(policies.ListMigrations, s.listMigrations)},
		"/v2.1/servers/{id}/migrations": {
			http.MethodGet: inProgress(policies.ListServerMigrations, s.serverMigrations),
		},
		"/v2.1/servers/{id}/migrations/{migration}": {
			http.MethodGet:    inProgress(policies.ShowServerMigration, s.serverMigration),
			http.MethodDelete: refused(policies.AbortServerMigration),
		},
		"/v2.1/servers/{id}/migrations/{migration}/action": {
			http.MethodPost: refused(policies.ForceServerMigration),
		},
	}
}

func (s *Handlers) listMigrations(c *request.Call) error {
	q := c.R.URL.Query()
	limit, _, err := c.ReadPage(q)
	if err != nil {
		return err
	}
	name, err := request.HostFilter(q)
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
		views = append(views, migrationView(c, m))
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"migrations": views})
}

// serverMigrations is GET /v2.1/servers/{id}/migrations (2.23): the migrations in progress.
func (s *Handlers) serverMigrations(c *request.Call, found lifecycle.Server) error {
	views, err := s.migrationsInProgress(c, found)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"migrations": views})
}

// serverMigration is GET /v2.1/servers/{id}/migrations/{migration} (2.23): one migration in progress, by its number.
// Nova's rule is os_compute_api:servers:migrations:show.
func (s *Handlers) serverMigration(c *request.Call, found lifecycle.Server) error {
	views, err := s.migrationsInProgress(c, found)
	if err != nil {
		return err
	}
	for _, v := range views {
		if strconv.FormatInt(v.ID, 10) == c.R.PathValue("migration") {
			return c.WriteJSON(http.StatusOK, map[string]any{"migration": v})
		}
	}
	return fault.New(fault.NotFound, "In-progress migration %s is not found for server %s.",
		edge.Clip(c.R.PathValue("migration")), c.R.PathValue("id"))
}

// migrationsInProgress lists the migrations in progress of a server.
func (s *Handlers) migrationsInProgress(c *request.Call, found lifecycle.Server) ([]compute.Migration, error) {
	list, err := s.Store.Migrations(c.R.Context(), store.MigrationFilter{Server: found.ID})
	if err != nil {
		return nil, err
	}
	views := []compute.Migration{}
	for _, m := range list {
		if found.Move != nil && found.Migration.ID == m.ID {
			v := migrationView(c, m)
			v.Server = found.ID
			views = append(views, v)
		}
	}
	return views, nil
}

func migrationView(c *request.Call, m store.Migration) compute.Migration {
	v := compute.Migration{ID: m.Number, Instance: m.Server, Status: m.Status, SourceHost: request.OrNull(m.From),
		SourceNode: request.OrNull(m.From), DestHost: request.OrNull(m.To), DestNode: request.OrNull(m.To),
		OldFlavor: m.OldFlavor,
		NewFlavor: m.NewFlavor,
		Created:   compute.Time{Time: m.Begun}, Updated: compute.Time{Time: m.Updated}}
	if c.Has(compute.ServerMigrations) {
		v.Kind = string(m.Kind)
	}
	if c.Has(compute.MigrationUUID) {
		v.UUID = m.ID
	}
	return v
}
