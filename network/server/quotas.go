package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
)

// quotas has the handlers of quotas.
type quotas struct{ *server }

// routes returns the paths of quotas.
func (s quotas) routes() []edge.Route[*call] {
	return []edge.Route[*call]{
		{Path: "/v2.0/quotas", Methods: methods{http.MethodGet: {Handle: s.listQuotas}}},
		{Path: "/v2.0/quotas/{project}", Methods: methods{http.MethodGet: {Handle: s.showQuota},
			http.MethodPut: {Handle: s.updateQuota}, http.MethodDelete: {Handle: s.resetQuota}}},
		{Path: "/v2.0/quotas/{project}/default", Methods: methods{http.MethodGet: {Handle: s.defaultQuota}}},
		{Path: "/v2.0/quotas/{project}/details", Methods: methods{http.MethodGet: {Handle: s.quotaDetails}}},
	}
}

// mayQuota checks a rule for the project in the path, and returns the project.
func (c *call) mayQuota(rule string) (string, error) {
	project := c.R.PathValue("project")
	return project, c.Authorize(rule, c.target(project, nil))
}

// writeQuota writes limits; resources without a limit in Berth have none.
func writeQuota(c *call, limits map[string]int) error {
	view := map[string]any{"router": -1, "floatingip": -1, "rbac_policy": -1, "subnetpool": -1}
	for name, limit := range limits {
		view[name] = limit
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"quota": view})
}

func (s quotas) listQuotas(c *call) error {
	if err := c.Authorize("update_quota", c.target("", nil)); err != nil {
		return err
	}
	found, err := s.ops.Projects(c.R.Context())
	list := []map[string]any{}
	for _, q := range found {
		view := map[string]any{"project_id": q.ID, "tenant_id": q.ID}
		for name, limit := range s.ops.Quotas {
			if own, ok := q.Limits[name]; ok {
				limit = own
			}
			view[name] = limit
		}
		list = append(list, view)
	}
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, map[string]any{"quotas": list})
	}
	return err
}

func (s quotas) showQuota(c *call) error {
	project, err := c.mayQuota("get_quota")
	if err != nil {
		return err
	}
	return s.writeLimits(c, project)
}

// writeLimits writes the limits of a project.
func (s quotas) writeLimits(c *call, project string) error {
	limits, _, err := s.ops.Limits(c.R.Context(), project)
	if err != nil {
		return err
	}
	return writeQuota(c, limits)
}

func (s quotas) defaultQuota(c *call) error {
	if _, err := c.mayQuota("get_quota"); err != nil {
		return err
	}
	return writeQuota(c, s.ops.Quotas)
}

func (s quotas) quotaDetails(c *call) error {
	project, err := c.mayQuota("get_quota")
	if err != nil {
		return err
	}
	limits, _, err := s.ops.Limits(c.R.Context(), project)
	if err != nil {
		return err
	}
	used, err := s.ops.Used(c.R.Context(), project)
	if err != nil {
		return err
	}
	view := map[string]any{}
	for name, limit := range limits {
		view[name] = map[string]any{"limit": limit, "used": used[name], "reserved": 0}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"quota": view})
}

func (s quotas) updateQuota(c *call) error {
	project, err := c.mayQuota("update_quota")
	if err != nil {
		return err
	}
	o, _, err := c.Object("quota")
	if err != nil {
		return err
	}
	limits := map[string]int{}
	for name := range s.ops.Quotas {
		if limit := 0; o.Number(name, &limit, -1, maxRate) {
			limits[name] = limit
		}
	}
	for _, name := range []string{"project_id", "tenant_id", "force", "check_limit"} {
		delete(o.Keys, name)
	}
	if err := o.Finish(); err != nil {
		return err
	}
	if err := s.ops.SetLimits(c.R.Context(), project, limits); err != nil {
		return err
	}
	return s.writeLimits(c, project)
}

func (s quotas) resetQuota(c *call) error {
	project, err := c.mayQuota("delete_quota")
	if err != nil {
		return err
	}
	return c.Done(http.StatusNoContent, s.ops.ResetLimits(c.R.Context(), project))
}
