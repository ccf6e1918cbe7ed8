package actions

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// abortMigration is DELETE /v2.1/servers/{id}/migrations/{migration} (2.24). Since 2.65 the migration may be one that
// does not run yet. Nova's rule is os_compute_api:servers:migrations:delete.
func (s *Handlers) abortMigration(c *request.Call, found lifecycle.Server) error {
	return requestOfMigration(s, c, found, lifecycle.AbortLive, fault.NotFound)
}

// forceMigration is POST /v2.1/servers/{id}/migrations/{migration}/action (2.22) with force_complete. Nova's rule is
// os_compute_api:servers:migrations:force_complete.
func (s *Handlers) forceMigration(c *request.Call, found lifecycle.Server) error {
	var body map[string]json.RawMessage
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	if value, given := body["force_complete"]; !given || len(body) != 1 || !edge.IsNull(value) {
		return fault.New(fault.Invalid, "the body must have one key, force_complete, which is null")
	}
	return requestOfMigration(s, c, found, lifecycle.ForceLive, fault.Invalid)
}

// requestOfMigration requests something of a live migration in progress, and responds with 202. unknown is the kind of
// the fault if the server has no such migration.
func requestOfMigration(s *Handlers, c *request.Call, found lifecycle.Server, action lifecycle.Action,
	unknown fault.Kind) error {
	if err := request.RefuseLocked(c, found); err != nil {
		return err
	}
	if refusal := found.RefuseNotMigrating(action); refusal != "" {
		return fault.New(fault.Conflict, "%s", refusal)
	}
	list, err := s.Store.Migrations(c.R.Context(), store.MigrationFilter{Server: found.ID})
	if err != nil {
		return err
	}
	id := c.R.PathValue("migration")
	i := slices.IndexFunc(list, func(m store.Migration) bool { return strconv.FormatInt(m.Number, 10) == id })
	if i < 0 {
		return fault.New(unknown, "Migration %s not found for instance %s", edge.Clip(id), found.ID)
	}
	refusal := list[i].RefuseLiveRequest(action, found.ID, id, c.Has(compute.AbortQueuedMove))
	if refusal != "" {
		return fault.New(fault.Invalid, "%s", refusal)
	}
	_, err = s.Conductor.Act(c.R.Context(), found.ID, lifecycle.ActionRequested{ID: s.NewID(), Action: action,
		By: request.Caller(c), Migration: list[i].ID})
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}
