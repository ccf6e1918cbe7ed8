package server

import (
	"net/http"
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
)

// setTags replaces the tags of an object of one kind.
type setTags func(c *call, id string, change func([]string) ([]string, error)) ([]string, error)

// tagRoutes returns the paths of tags.
func (s *server) tagRoutes() []edge.Route[*call] {
	var all []edge.Route[*call]
	for _, t := range []struct {
		path string
		col  collection
		set  setTags
	}{{"networks", s.networks(), tagsOf[store.Network](s)}, {"subnets", s.subnets(), tagsOf[store.Subnet](s)},
		{"ports", s.ports(), tagsOf[store.Port](s)}, {"policies", s.qosPolicies(), tagsOf[store.Policy](s)}} {
		h := tags{t.col.named(), "update_" + t.path + "_tags", t.set}
		path := "/v2.0/" + t.path + "/{id}/tags"
		all = append(all, edge.Route[*call]{Path: path, Methods: methods{http.MethodGet: {Handle: h.list},
			http.MethodPut: {Handle: h.replace}, http.MethodDelete: {Handle: h.clear}}},
			edge.Route[*call]{Path: path + "/{tag}", Methods: methods{http.MethodGet: {Handle: h.show},
				http.MethodPut: {Handle: h.add}, http.MethodDelete: {Handle: h.remove}}})
	}
	return all
}

func tagsOf[T any, P store.Pointer[T]](s *server) setTags {
	return func(c *call, id string, change func([]string) ([]string, error)) ([]string, error) {
		return operations.SetTags[T, P](c.R.Context(), s.ops, id, change)
	}
}

// tags has the handlers of the tags of one collection.
type tags struct {
	col  collection
	rule string
	set  setTags
}

// change changes the tags of the object in the path.
func (t tags) change(c *call, change func([]string) ([]string, error)) ([]string, error) {
	d, err := t.col.read(c, c.R.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if err := c.Authorize(t.rule, d.target); err != nil {
		return nil, err
	}
	return t.set(c, c.R.PathValue("id"), change)
}

func (t tags) present(c *call) ([]string, error) {
	d, err := t.col.read(c, c.R.PathValue("id"))
	list, _ := d.view["tags"].([]string)
	return list, err
}

func (t tags) list(c *call) error {
	list, err := t.present(c)
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, map[string]any{"tags": notNil(list)})
	}
	return err
}

func (t tags) show(c *call) error {
	list, err := t.present(c)
	if err == nil && !slices.Contains(list, c.R.PathValue("tag")) {
		err = unknownTag(c)
	}
	if err == nil {
		c.W.WriteHeader(http.StatusNoContent)
	}
	return err
}

func unknownTag(c *call) error {
	return fault.New(fault.NotFound, "", "Tag %s could not be found.", c.R.PathValue("tag")).WithCode("TagNotFound")
}

func (t tags) replace(c *call) error {
	var body struct{ Tags []string }
	if err := c.body(&body); err != nil {
		return err
	}
	for _, tag := range body.Tags {
		if len(tag) > 255 || tag == "" {
			return fault.New(fault.Invalid, "", "Invalid input for tags. Reason: '%s' must have 1 to 255 bytes.", tag)
		}
	}
	slices.Sort(body.Tags)
	list, err := t.change(c, func([]string) ([]string, error) { return slices.Compact(body.Tags), nil })
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, map[string]any{"tags": notNil(list)})
	}
	return err
}

func (t tags) clear(c *call) error {
	_, err := t.change(c, func([]string) ([]string, error) { return nil, nil })
	if err == nil {
		c.W.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (t tags) add(c *call) error {
	_, err := t.change(c, func(list []string) ([]string, error) {
		list = append(list, c.R.PathValue("tag"))
		slices.Sort(list)
		return slices.Compact(list), nil
	})
	if err == nil {
		c.W.WriteHeader(http.StatusCreated)
	}
	return err
}

func (t tags) remove(c *call) error {
	_, err := t.change(c, func(list []string) ([]string, error) {
		at := slices.Index(list, c.R.PathValue("tag"))
		if at < 0 {
			return nil, unknownTag(c)
		}
		return slices.Delete(list, at, at+1), nil
	})
	if err == nil {
		c.W.WriteHeader(http.StatusNoContent)
	}
	return err
}

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
	view := map[string]any{"router": -1, "floatingip": -1, "security_group": -1, "security_group_rule": -1,
		"rbac_policy": -1, "subnetpool": -1}
	for name, limit := range limits {
		view[name] = limit
	}
	rest.WriteJSON(c.W, http.StatusOK, map[string]any{"quota": view})
	return nil
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
	rest.WriteJSON(c.W, http.StatusOK, map[string]any{"quota": view})
	return nil
}

func (s quotas) updateQuota(c *call) error {
	project, err := c.mayQuota("update_quota")
	if err != nil {
		return err
	}
	o, err := c.object("quota")
	if err != nil {
		return err
	}
	limits := map[string]int{}
	for name := range s.ops.Quotas {
		if limit := 0; o.number(name, &limit, -1, maxRate) {
			limits[name] = limit
		}
	}
	for _, name := range []string{"project_id", "tenant_id", "force", "check_limit"} {
		delete(o.keys, name)
	}
	if err := o.finish("PUT"); err != nil {
		return err
	}
	if err := s.ops.SetLimits(c.R.Context(), project, limits); err != nil {
		return err
	}
	now, _, err := s.ops.Limits(c.R.Context(), project)
	if err != nil {
		return err
	}
	return writeQuota(c, now)
}

func (s quotas) resetQuota(c *call) error {
	project, err := c.mayQuota("delete_quota")
	if err != nil {
		return err
	}
	if err := s.ops.ResetLimits(c.R.Context(), project); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
