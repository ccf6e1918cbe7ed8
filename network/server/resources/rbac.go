package resources

import (
	"net/url"
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

// rbac has the handlers of RBAC policies.
type rbac struct{ handlers }

func (s rbac) operations() operations.Sharing { return operations.Sharing{Service: s.Ops} }

// collection returns the collection of RBAC policies.
func (s rbac) collection() request.Collection {
	return request.Collection{One: "rbac_policy", Many: "rbac_policies", Missing: "RbacPolicyNotFound",
		Attributes: []string{"id", "project_id", "tenant_id", "object_type", "object_id", "action", "target_tenant"},
		List: func(c *request.Call, q url.Values) ([]request.Document, error) {
			f := request.StoreFilter(q)
			f.Policies, f.Hosts = q["object_id"], q["target_tenant"]
			found, err := operations.List[store.RBACPolicy](c.R.Context(), s.Ops, f)
			var list []request.Document
			for _, p := range found {
				list = append(list, rbacDocument(c, p))
			}
			return list, err
		},
		Show: func(c *request.Call, id string) (request.Document, error) {
			p, err := operations.Get[store.RBACPolicy](c.R.Context(), s.Ops, id)
			return rbacDocument(c, p), err
		},
		Draft: func(c *request.Call, o *edge.Object) (map[string]any, error) {
			target, err := request.DraftProject(c, o)
			if err != nil {
				return nil, err
			}
			p := store.RBACPolicy{}
			readTarget(o.Copy(), &p)
			target["wildcard"] = p.Target == operations.AllProjects
			return target, nil
		},
		Create: s.create, Update: s.update,
		Remove: func(c *request.Call, id string, revision int) error {
			return s.operations().Delete(c.R.Context(), id, revision)
		}}
}

// rbacDocument returns the document of an RBAC policy.
func rbacDocument(c *request.Call, p store.RBACPolicy) request.Document {
	return request.Document{View: map[string]any{"id": p.ID, "project_id": p.Project, "tenant_id": p.Project,
		"object_type": p.Type,
		"object_id":   p.Object, "action": p.Action, "target_tenant": p.Target}, Target: c.Target(p.Project, nil)}
}

// readTarget decodes the target of an RBAC policy.
func readTarget(o *edge.Object, p *store.RBACPolicy) {
	for _, key := range []string{"target_tenant", "target_project"} {
		if o.Text(key, &p.Target, 255) && p.Target == "" {
			o.Invalid(key, "it is empty; give a project, or * for all")
		}
	}
}

// mayShare returns a function that reports whether the caller may share objects of a project.
func mayShare(c *request.Call) func(project string) bool {
	return func(project string) bool { return c.Who.IsAdmin() || project != "" && project == c.Who.Project }
}

func (s rbac) create(c *request.Call, o *edge.Object) (request.Document, error) {
	p := store.RBACPolicy{}
	p.Project, _ = c.Project(o)
	o.Require("object_type", "object_id", "action")
	o.Text("object_type", &p.Type, 255)
	o.Text("object_id", &p.Object, 255)
	o.Text("action", &p.Action, 255)
	if readTarget(o, &p); p.Target == "" {
		o.Invalid("target_tenant", "it is required")
	}
	if err := o.Finish(); err != nil {
		return request.Document{}, err
	}
	switch {
	case p.Type == "address_scope" || p.Type == "address_group":
		return request.Document{}, wrongShare("Berth has no objects of the type %s", p.Type)
	case !slices.Contains(operations.SharedTypes(), p.Type):
		return request.Document{}, wrongShare("Invalid object type '%s'; give one of %v", edge.Clip(p.Type),
			operations.SharedTypes())
	case p.Action == operations.AccessAsExternal:
		return request.Document{},
			wrongShare("access_as_external is for networks of routers, which Berth does not have; use %s",
				operations.AccessAsShared)
	case p.Action != operations.AccessAsShared:
		return request.Document{}, wrongShare("Invalid action '%s' for object type '%s'; give %s", edge.Clip(p.Action),
			p.Type,
			operations.AccessAsShared)
	}
	p, err := s.operations().Create(c.R.Context(), p, mayShare(c))
	return rbacDocument(c, p), err
}

func wrongShare(format string, args ...any) error {
	return fault.New(fault.Invalid, "Invalid input for operation: "+format+".", args...).WithCode("InvalidInput")
}

func (s rbac) update(c *request.Call, id string, revision int, o *edge.Object) (request.Document, error) {
	p, err := s.operations().Update(c.R.Context(), id, revision, mayShare(c), func(p *store.RBACPolicy) error {
		o := o.Copy()
		readTarget(o, p)
		if err := o.Finish(); err != nil {
			return err
		}
		target := c.Target(p.Project, map[string]any{"wildcard": p.Target == operations.AllProjects})
		return c.Authorize("update_rbac_policy:target_tenant", target)
	})
	return rbacDocument(c, p), err
}
