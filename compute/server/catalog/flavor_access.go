package catalog

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// flavorAccess holds the handlers of access lists.
type flavorAccess struct{ *Handlers }

// flavorAccessRoutes returns the paths of access lists of flavors: the projects that may use a flavor that is not
// public.
func flavorAccessRoutes(h *Handlers) request.Routes {
	s := flavorAccess{h}
	return request.Routes{
		"/v2.1/flavors/{id}/os-flavor-access": {
			http.MethodGet: request.Guarded(policies.ListFlavorAccess, s.listFlavorAccess),
		},
		"/v2.1/flavors/{id}/action": {http.MethodPost: request.Open(s.changeFlavorAccess)},
	}
}

// FlavorActionRules returns the policy rules of the actions on flavors, by their key in the body.
func FlavorActionRules() map[string]string {
	return map[string]string{"addTenantAccess": policies.AddFlavorAccess,
		"removeTenantAccess": policies.RemoveFlavorAccess}
}

// accessConflict is the version since which a public flavor refuses access lists.
const accessConflict = 7

// listFlavorAccess is GET /v2.1/flavors/{id}/os-flavor-access.
func (s flavorAccess) listFlavorAccess(c *request.Call) error {
	f, err := s.VisibleFlavor(c.R.Context(), c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	if f.Public {
		return fault.New(fault.NotFound, "Access list not available for public flavors.")
	}
	return s.writeFlavorAccess(c, f)
}

// changeFlavorAccess is POST /v2.1/flavors/{id}/action: it adds or removes one project, and responds with the list.
func (s flavorAccess) changeFlavorAccess(c *request.Call) error {
	var body map[string]json.RawMessage
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	if len(body) != 1 {
		return fault.New(fault.Invalid, "the body must have one key, the action; it has %d", len(body))
	}
	for key, raw := range body {
		rule := FlavorActionRules()[key]
		if rule == "" {
			return fault.New(fault.Invalid, "There is no such action: %s", edge.Clip(key))
		}
		if err := c.Authorize(rule, c.Owner()); err != nil {
			return err
		}
		o := c.NewObject(key, map[string]json.RawMessage{})
		if err := json.Unmarshal(raw, &o.Keys); err != nil || o.Keys == nil {
			return fault.New(fault.Invalid, "Invalid input for %s: it must be an object with the key tenant", key)
		}
		project := ""
		o.Require("tenant")
		if o.Text("tenant", &project, 255); o.Err() == nil && project == "" {
			o.Invalid("tenant", "it is empty; give the id of a project")
		}
		if err := o.Finish(); err != nil {
			return err
		}
		f, err := s.VisibleFlavor(c.R.Context(), c, c.R.PathValue("id"))
		if err != nil {
			return err
		}
		if key == "removeTenantAccess" {
			err = s.Flavors.RemoveFlavorAccess(c.R.Context(), f.ID, project)
		} else {
			err = s.addFlavorAccess(c, f, project)
		}
		if err != nil {
			return err
		}
		return s.writeFlavorAccess(c, f)
	}
	return nil
}

// addFlavorAccess adds a project. Since 2.7 a public flavor is refused; before, the list has no effect.
func (s flavorAccess) addFlavorAccess(c *request.Call, f flavor.Flavor, project string) error {
	if f.Public && c.Has(accessConflict) {
		return fault.New(fault.Conflict, "Can not add access to a public flavor.")
	}
	return s.Flavors.AddFlavorAccess(c.R.Context(), f.ID, project)
}

func (s flavorAccess) writeFlavorAccess(c *request.Call, f flavor.Flavor) error {
	projects, err := s.Flavors.FlavorAccess(c.R.Context(), f.ID)
	if err != nil {
		return err
	}
	list := make([]map[string]string, 0, len(projects))
	for _, project := range projects {
		list = append(list, map[string]string{"flavor_id": f.ID, "tenant_id": project})
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"flavor_access": list})
}

// mayUse reports whether the caller may see and use a flavor: it is public, the caller is an administrator, or the
// access list has the project of the caller.
func mayUse(s FlavorStore, c *request.Call, f flavor.Flavor) (bool, error) {
	if f.Public || c.Who.IsAdmin() {
		return true, nil
	}
	projects, err := s.FlavorAccess(c.R.Context(), f.ID)
	return slices.Contains(projects, c.Who.Project), err
}
