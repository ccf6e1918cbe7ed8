package server

import (
	"net/url"
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
)

// rbac has the handlers of RBAC policies.
type rbac struct{ handlers }

func (s rbac) operations() operations.Sharing { return operations.Sharing{Service: s.ops} }

// collection returns the collection of RBAC policies.
func (s rbac) collection() collection {
	return collection{one: "rbac_policy", many: "rbac_policies", missing: "RbacPolicyNotFound",
		attributes: []string{"id", "project_id", "tenant_id", "object_type", "object_id", "action", "target_tenant"},
		list: func(c *call, q url.Values) ([]document, error) {
			f := storeFilter(q)
			f.Policies, f.Hosts = q["object_id"], q["target_tenant"]
			found, err := operations.List[store.RBACPolicy](c.R.Context(), s.ops, f)
			var list []document
			for _, p := range found {
				list = append(list, c.rbacPolicy(p))
			}
			return list, err
		},
		show: func(c *call, id string) (document, error) {
			p, err := operations.Get[store.RBACPolicy](c.R.Context(), s.ops, id)
			return c.rbacPolicy(p), err
		},
		draft: func(c *call, o *edge.Object) (map[string]any, error) {
			target, err := draftProject(c, o)
			if err != nil {
				return nil, err
			}
			p := store.RBACPolicy{}
			readTarget(o.Copy(), &p)
			target["wildcard"] = p.Target == operations.AllProjects
			return target, nil
		},
		create: s.create, update: s.update,
		remove: func(c *call, id string, revision int) error {
			return s.operations().Delete(c.R.Context(), id, revision)
		}}
}

// rbacPolicy returns the document of an RBAC policy.
func (c *call) rbacPolicy(p store.RBACPolicy) document {
	return document{map[string]any{"id": p.ID, "project_id": p.Project, "tenant_id": p.Project, "object_type": p.Type,
		"object_id": p.Object, "action": p.Action, "target_tenant": p.Target}, c.target(p.Project, nil)}
}

// readTarget decodes the target of an RBAC policy.
func readTarget(o *edge.Object, p *store.RBACPolicy) {
	for _, key := range []string{"target_tenant", "target_project"} {
		if o.Text(key, &p.Target, 255) && p.Target == "" {
			o.Invalid(key, "it is empty; give a project, or * for all")
		}
	}
}

// mayShare reports whether the caller may share objects of a project.
func (c *call) mayShare(project string) bool {
	return c.Who.IsAdmin() || project != "" && project == c.Who.Project
}

func (s rbac) create(c *call, o *edge.Object) (document, error) {
	p := store.RBACPolicy{}
	p.Project, _ = c.project(o)
	o.Require("object_type", "object_id", "action")
	o.Text("object_type", &p.Type, 255)
	o.Text("object_id", &p.Object, 255)
	o.Text("action", &p.Action, 255)
	if readTarget(o, &p); p.Target == "" {
		o.Invalid("target_tenant", "it is required")
	}
	if err := o.Finish(); err != nil {
		return document{}, err
	}
	switch {
	case p.Type == "address_scope" || p.Type == "address_group":
		return document{}, wrongShare("Berth has no objects of the type %s", p.Type)
	case !slices.Contains(operations.SharedTypes(), p.Type):
		return document{}, wrongShare("Invalid object type '%s'; give one of %v", edge.Clip(p.Type),
			operations.SharedTypes())
	case p.Action == operations.AccessAsExternal:
		return document{}, wrongShare("access_as_external is for networks of routers, which Berth does not have; use %s",
			operations.AccessAsShared)
	case p.Action != operations.AccessAsShared:
		return document{}, wrongShare("Invalid action '%s' for object type '%s'; give %s", edge.Clip(p.Action), p.Type,
			operations.AccessAsShared)
	}
	p, err := s.operations().Create(c.R.Context(), p, c.mayShare)
	return c.rbacPolicy(p), err
}

func wrongShare(format string, args ...any) error {
	return fault.New(fault.Invalid, "Invalid input for operation: "+format+".", args...).WithCode("InvalidInput")
}

func (s rbac) update(c *call, id string, revision int, o *edge.Object) (document, error) {
	p, err := s.operations().Update(c.R.Context(), id, revision, c.mayShare, func(p *store.RBACPolicy) error {
		o := o.Copy()
		readTarget(o, p)
		if err := o.Finish(); err != nil {
			return err
		}
		target := c.target(p.Project, map[string]any{"wildcard": p.Target == operations.AllProjects})
		return c.Authorize("update_rbac_policy:target_tenant", target)
	})
	return c.rbacPolicy(p), err
}
