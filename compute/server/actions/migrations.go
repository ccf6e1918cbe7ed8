package actions

import (
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// migrationRoutes returns the paths of migrations: all of them, and those of a server in progress (2.23).
func migrationRoutes(s *Handlers) request.Routes {
	inProgress := func(rule string, handle func(*request.Call, lifecycle.Server) error) request.Method {
		return request.Since(compute.ServerMigrations, request.Guarded(rule, s.OfServer("", handle).Handle))
	}
	requested := func(since compute.Version, rule string,
		handle func(*request.Call, lifecycle.Server) error) request.Method {
		return request.Since(since, request.Guarded(rule, s.OfServer("", handle).Handle))
	}
	return request.Routes{
		"/v2.1/os-migrations": {http.MethodGet: request.Guarded(policies.ListMigrations, s.listMigrations)},
		"/v2.1/servers/{id}/migrations": {
			http.MethodGet: inProgress(policies.ListServerMigrations, s.serverMigrations),
		},
		"/v2.1/servers/{id}/migrations/{migration}": {
			http.MethodGet:    inProgress(policies.ShowServerMigration, s.serverMigration),
			http.MethodDelete: requested(compute.AbortMigration, policies.AbortServerMigration, s.abortMigration),
		},
		"/v2.1/servers/{id}/migrations/{migration}/action": {
			http.MethodPost: requested(compute.ForceMigration, policies.ForceServerMigration, s.forceMigration),
		},
	}
}

// listMigrations is GET /v2.1/os-migrations: the moves that the query selects, newest first, in pages since 2.59.
func (s *Handlers) listMigrations(c *request.Call) error {
	q := c.R.URL.Query()
	name, err := request.HostFilter(q)
	if err != nil {
		return err
	}
	f := store.MigrationFilter{Server: q.Get("instance_uuid"), Status: q.Get("status"), Kind: q.Get("migration_type"),
		Source: q.Get("source_compute"), Host: name}
	known := []string{"hidden", "host", "instance_uuid", "source_compute", "status", "migration_type", "limit",
		"marker",
		"changes-since"}
	if c.Has(compute.ChangesBefore) {
		known = append(known, "changes-before")
	}
	if c.Has(compute.MigrationOwner) {
		known = append(known, "user_id", "project_id")
		f.User, f.Project = q.Get("user_id"), q.Get("project_id")
	}
	if c.Has(compute.MigrationUUID) {
		if err := request.CheckQuery(q, known...); err != nil {
			return err
		}
		if f.Limit, f.Marker, err = c.ReadPage(q); err != nil {
			return err
		}
		if f.Since, f.Before, err = request.ChangesBetween(c, q); err != nil {
			return err
		}
	}
	list := []store.Migration{}
	if !c.Has(compute.MigrationUUID) || f.Limit > 0 { // the store takes a limit of 0 for none
		if list, err = s.Store.Migrations(c.R.Context(), f); err != nil {
			return err
		}
	}
	views := make([]compute.Migration, 0, len(list))
	for _, m := range list {
		views = append(views, migrationView(c, m))
	}
	body := map[string]any{"migrations": views}
	if c.Has(compute.MigrationUUID) && len(list) > 0 {
		if next := c.NextLinks(f.Limit, len(list), list[len(list)-1].ID); next != nil {
			body["migrations_links"] = next
		}
	}
	return c.WriteJSON(http.StatusOK, body)
}

// serverMigrations is GET /v2.1/servers/{id}/migrations (2.23): the live migrations in progress. Nova's rule is
// os_compute_api:servers:migrations:index.
func (s *Handlers) serverMigrations(c *request.Call, found lifecycle.Server) error {
	list, err := s.Store.Migrations(c.R.Context(), store.MigrationFilter{Server: found.ID})
	if err != nil {
		return err
	}
	views := []compute.ServerMigration{}
	for _, m := range list {
		if isLiveInProgress(m) {
			views = append(views, serverMigrationView(c, m))
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"migrations": views})
}

// serverMigration is GET /v2.1/servers/{id}/migrations/{migration} (2.23): one live migration in progress, by its
// number. Nova's rule is os_compute_api:servers:migrations:show.
func (s *Handlers) serverMigration(c *request.Call, found lifecycle.Server) error {
	list, err := s.Store.Migrations(c.R.Context(), store.MigrationFilter{Server: found.ID})
	if err != nil {
		return err
	}
	id := c.R.PathValue("migration")
	for _, m := range list {
		switch {
		case strconv.FormatInt(m.Number, 10) != id:
		case m.Kind != lifecycle.LiveMigration:
			return fault.New(fault.NotFound, "Migration %s for server %s is not live-migration.", id, found.ID)
		case !isLiveInProgress(m):
			return fault.New(fault.NotFound, "Live migration %s for server %s is not in progress.", id, found.ID)
		default:
			return c.WriteJSON(http.StatusOK, map[string]any{"migration": serverMigrationView(c, m)})
		}
	}
	return fault.New(fault.NotFound, "In-progress live migration %s is not found for server %s.", edge.Clip(id),
		found.ID)
}

// isLiveInProgress reports whether a move is a live migration that has not ended.
func isLiveInProgress(m store.Migration) bool {
	return m.Kind == lifecycle.LiveMigration &&
		slices.Contains([]string{"accepted", "queued", "preparing", "running", "post-migrating"}, m.Status)
}

func migrationView(c *request.Call, m store.Migration) compute.Migration {
	v := compute.Migration{MigrationState: migrationState(c, m), Instance: m.Server,
		OldFlavor: flavorNumber(m.OldFlavor),
		NewFlavor: flavorNumber(m.NewFlavor)}
	if c.Has(compute.ServerMigrations) {
		v.Kind = string(m.Kind)
		if isLiveInProgress(m) {
			v.Links = c.Links("servers/"+m.Server+"/migrations", strconv.FormatInt(m.Number, 10))
		}
	}
	return v
}

func serverMigrationView(c *request.Call, m store.Migration) compute.ServerMigration {
	return compute.ServerMigration{MigrationState: migrationState(c, m), Server: m.Server}
}

func migrationState(c *request.Call, m store.Migration) compute.MigrationState {
	v := compute.MigrationState{ID: m.Number, Status: m.Status, SourceHost: request.OrNull(m.From),
		SourceNode: request.OrNull(m.From), DestHost: request.OrNull(m.To), DestNode: request.OrNull(m.To),
		Created: request.Micros(m.Begun), Updated: request.MicrosOrNull(m.Updated)}
	if c.Has(compute.MigrationUUID) {
		v.UUID = m.ID
	}
	if c.Has(compute.MigrationOwner) {
		v.MigrationOf = &compute.MigrationOf{UserID: request.OrNull(m.User), ProjectID: request.OrNull(m.Project)}
	}
	return v
}

// flavorNumber returns a number for a flavor, which the API requires here, where Nova shows the number of its database:
// the id if it is a number, else one that is computed from the id and is always the same; nil: no flavor.
func flavorNumber(id string) *int32 {
	if id == "" {
		return nil
	}
	n, err := strconv.ParseInt(id, 10, 32)
	if err != nil || n < 0 {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(id)) // never fails
		n = int64(sum.Sum32() >> 1)
	}
	number := int32(n)
	return &number
}
