package resources

import (
	"maps"
	"net/http"
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/server/request"
)

// quotas has the handlers of quotas.
type quotas struct{ handlers }

// routes returns the paths of quotas.
func (s quotas) routes() []edge.Route[*request.Call] {
	return []edge.Route[*request.Call]{
		{Path: "/v2.0/quotas", Methods: request.Methods{http.MethodGet: {Handle: s.listQuotas}}},
		{Path: "/v2.0/quotas/{project}", Methods: request.Methods{http.MethodGet: {Handle: s.showQuota},
			http.MethodPut: {Handle: s.updateQuota}, http.MethodDelete: {Handle: s.resetQuota}}},
		{Path: "/v2.0/quotas/{project}/default", Methods: request.Methods{http.MethodGet: {Handle: s.defaultQuota}}},
		{Path: "/v2.0/quotas/{project}/details", Methods: request.Methods{http.MethodGet: {Handle: s.quotaDetails}}},
	}
}

// mayQuota checks a rule for the project in the path, and returns the project.
func mayQuota(c *request.Call, rule string) (string, error) {
	project := c.R.PathValue("project")
	return project, c.Authorize(rule, c.Target(project, nil))
}

// otherQuotas are the names of Neutron's quotas of resources that Berth does not have, or does not limit. They are
// accepted and shown, so that a client can write what it has read.
var otherQuotas = []string{"router", "floatingip", "trunk", "address_group"}

// shownLimits returns all limits that are set, and -1 for the others.
func (s quotas) shownLimits(limits map[string]int) map[string]any {
	view := map[string]any{}
	for _, name := range otherQuotas {
		view[name] = -1
	}
	for name, limit := range limits {
		view[name] = limit
	}
	return view
}

// writeQuota writes limits.
func (s quotas) writeQuota(c *request.Call, limits map[string]int) error {
	return c.WriteJSON(http.StatusOK, map[string]any{"quota": s.shownLimits(limits)})
}

func (s quotas) listQuotas(c *request.Call) error {
	if err := c.Authorize("update_quota", c.Target("", nil)); err != nil {
		return err
	}
	found, err := s.Ops.Projects(c.R.Context())
	list := []map[string]any{}
	for _, q := range found {
		limits := maps.Clone(s.Ops.Quotas)
		maps.Copy(limits, q.Limits)
		view := s.shownLimits(limits)
		view["project_id"], view["tenant_id"] = q.ID, q.ID
		list = append(list, view)
	}
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, map[string]any{"quotas": list})
	}
	return err
}

func (s quotas) showQuota(c *request.Call) error {
	project, err := mayQuota(c, "get_quota")
	if err != nil {
		return err
	}
	return s.writeLimits(c, project)
}

// writeLimits writes the limits of a project.
func (s quotas) writeLimits(c *request.Call, project string) error {
	limits, _, err := s.Ops.Limits(c.R.Context(), project)
	if err != nil {
		return err
	}
	return s.writeQuota(c, limits)
}

func (s quotas) defaultQuota(c *request.Call) error {
	if _, err := mayQuota(c, "get_quota"); err != nil {
		return err
	}
	return s.writeQuota(c, s.Ops.Quotas)
}

func (s quotas) quotaDetails(c *request.Call) error {
	project, err := mayQuota(c, "get_quota")
	if err != nil {
		return err
	}
	limits, _, err := s.Ops.Limits(c.R.Context(), project)
	if err != nil {
		return err
	}
	used, err := s.Ops.Used(c.R.Context(), project)
	if err != nil {
		return err
	}
	view := map[string]any{}
	for name, limit := range s.shownLimits(limits) {
		view[name] = map[string]any{"limit": limit, "used": used[name], "reserved": 0}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"quota": view})
}

func (s quotas) updateQuota(c *request.Call) error {
	project, err := mayQuota(c, "update_quota")
	if err != nil {
		return err
	}
	o, _, err := c.Object("quota")
	if err != nil {
		return err
	}
	limits := map[string]int{}
	names := append(slices.Sorted(maps.Keys(s.Ops.Quotas)), otherQuotas...)
	for _, name := range names {
		if limit := 0; o.Number(name, &limit, -1, request.MaxRate) {
			limits[name] = limit
		}
	}
	force, check := false, false
	o.Flag("force", &force)
	o.Flag("check_limit", &check)
	for _, name := range []string{"project_id", "tenant_id"} {
		delete(o.Keys, name)
	}
	if force && check {
		o.Invalid("check_limit", "give either force or check_limit")
	}
	if err := o.Finish(); err != nil {
		return err
	}
	if check {
		if err := s.checkUsed(c, project, limits); err != nil {
			return err
		}
	}
	if err := s.Ops.SetLimits(c.R.Context(), project, limits); err != nil {
		return err
	}
	return s.writeLimits(c, project)
}

// checkUsed refuses limits below what a project has.
func (s quotas) checkUsed(c *request.Call, project string, limits map[string]int) error {
	used, err := s.Ops.Used(c.R.Context(), project)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if limit := limits[name]; limit >= 0 && limit < used[name] {
			return fault.New(fault.Invalid,
				"Invalid input for quota: %s %d is below what project %s has, which is %d; "+
					"choose a larger limit, or leave out check_limit", name, limit, project,
				used[name]).WithCode("InvalidInput")
		}
	}
	return nil
}

func (s quotas) resetQuota(c *request.Call) error {
	project, err := mayQuota(c, "delete_quota")
	if err != nil {
		return err
	}
	return c.Done(http.StatusNoContent, s.Ops.ResetLimits(c.R.Context(), project))
}
