package operations

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/network/store"
)

// Sharing has the operations of RBAC policies: with which projects an object is shared.
type Sharing struct{ *Service }

// The types of objects that can be shared, and the only action.
const (
	SharedNetwork    = "network"
	SharedPolicy     = "qos_policy"
	SharedPool       = "subnetpool"
	SharedGroup      = "security_group"
	AccessAsShared   = "access_as_shared"
	AccessAsExternal = "access_as_external"
	AllProjects      = "*" // the target of all projects
)

// SharedTypes lists the types of objects that can be shared.
func SharedTypes() []string { return []string{SharedNetwork, SharedPolicy, SharedGroup, SharedPool} }

// With returns the ids of the objects that are shared with a project, or with all.
func (s Sharing) With(ctx context.Context, project string) (map[string]bool, error) {
	found, err := List[store.RBACPolicy](ctx, s.Service, store.Filter{Hosts: []string{AllProjects, project}})
	ids := map[string]bool{}
	for _, p := range found {
		ids[p.Object] = true
	}
	return ids, err
}

// Create stores a new RBAC policy. may reports whether the caller may share objects of a project.
func (s Sharing) Create(ctx context.Context, p store.RBACPolicy, may func(project string) bool) (store.RBACPolicy,
	error) {
	wanted := p
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		p = wanted
		s.begin(&p.Base)
		if err := s.checkQuota(ctx, tx, "rbac_policy", p.Project); err != nil {
			return err
		}
		if err := s.checkOwner(ctx, tx, p, may); err != nil {
			return err
		}
		return s.put(ctx, tx, p)
	})
	return p, err
}

// checkOwner refuses an object that does not exist, or that the caller may not share.
func (s Sharing) checkOwner(ctx context.Context, tx *store.Tx, p store.RBACPolicy, may func(string) bool) error {
	project, err := projectOf(ctx, tx, p)
	if err == nil && !may(project) {
		err = invalid("%s %s belongs to another project; only its project and administrators share it", p.Type, p.Object)
	}
	return err
}

// put writes an RBAC policy that no other one equals.
func (s Sharing) put(ctx context.Context, tx *store.Tx, p store.RBACPolicy) error {
	others, err := s.others(ctx, tx, p)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(others, func(o store.RBACPolicy) bool { return o.Target == p.Target }) {
		return conflict("DuplicateRbacPolicy", "An RBAC policy already exists with those values: %s %s is shared with %s",
			p.Type, p.Object, p.Target)
	}
	if err := s.flag(ctx, tx, p, append(others, p)); err != nil {
		return err
	}
	return store.Put(ctx, tx, &p)
}

// others returns the other RBAC policies of an object.
func (s Sharing) others(ctx context.Context, tx *store.Tx, p store.RBACPolicy) ([]store.RBACPolicy, error) {
	list, err := store.List[store.RBACPolicy](ctx, tx, store.Filter{Policies: []string{p.Object}})
	return slices.DeleteFunc(list, func(o store.RBACPolicy) bool { return o.ID == p.ID }), err
}

// Update changes the target of an RBAC policy. It is refused while a project uses the object only by it.
func (s Sharing) Update(ctx context.Context, id string, revision int, may func(project string) bool,
	change func(*store.RBACPolicy) error) (p store.RBACPolicy, err error) {
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		if p, err = current[store.RBACPolicy](ctx, tx, id, revision); err != nil {
			return err
		}
		if err := change(&p); err != nil {
			return err
		}
		if err := s.checkOwner(ctx, tx, p, may); err != nil {
			return err
		}
		others, err := s.others(ctx, tx, p)
		if err != nil {
			return err
		}
		if err := s.checkUsers(ctx, tx, p, append(others, p)); err != nil {
			return err
		}
		s.edited(&p.Base)
		return s.put(ctx, tx, p)
	})
	return p, err
}

// Delete removes an RBAC policy. It is refused while a project uses the object only by it.
func (s Sharing) Delete(ctx context.Context, id string, revision int) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		p, err := current[store.RBACPolicy](ctx, tx, id, revision)
		if err != nil {
			return err
		}
		left, err := s.others(ctx, tx, p)
		if err != nil {
			return err
		}
		if err := s.checkUsers(ctx, tx, p, left); err != nil {
			return err
		}
		if err := s.flag(ctx, tx, p, left); err != nil {
			return err
		}
		return store.Delete[store.RBACPolicy](ctx, tx, id)
	})
}

// checkUsers refuses that only some RBAC policies of an object are left while other projects use it.
func (s Sharing) checkUsers(ctx context.Context, tx *store.Tx, p store.RBACPolicy, left []store.RBACPolicy) error {
	owner, err := projectOf(ctx, tx, p)
	if err != nil {
		return err
	}
	users, err := usersOf(ctx, tx, p)
	if err != nil {
		return err
	}
	for _, project := range slices.Sorted(maps.Keys(users)) {
		mayUse := project == owner || project == "" || slices.ContainsFunc(left, func(o store.RBACPolicy) bool {
			return o.Target == AllProjects || o.Target == project
		})
		if !mayUse {
			return conflict("RbacPolicyInUse", "RBAC policy on object %s cannot be removed because other objects depend on "+
				"it: project %s uses it; remove its ports or other objects first", p.Object, project)
		}
	}
	return nil
}

// usersOf returns the projects that use an object.
func usersOf(ctx context.Context, tx *store.Tx, p store.RBACPolicy) (map[string]bool, error) {
	users := map[string]bool{}
	var ports []store.Port
	var subnets []store.Subnet
	var err error
	switch p.Type {
	case SharedNetwork:
		if ports, err = store.List[store.Port](ctx, tx, store.Filter{Networks: []string{p.Object}}); err == nil {
			subnets, err = store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{p.Object}})
		}
	case SharedPolicy:
		ports, err = store.List[store.Port](ctx, tx, store.Filter{Policies: []string{p.Object}})
		networks, failed := store.List[store.Network](ctx, tx, store.Filter{Policies: []string{p.Object}})
		for _, n := range networks {
			users[n.Project] = true
		}
		if err == nil {
			err = failed
		}
	case SharedPool:
		subnets, err = store.List[store.Subnet](ctx, tx, store.Filter{Policies: []string{p.Object}})
	case SharedGroup:
		var ids []string
		if ids, err = tx.PortsOfGroup(ctx, p.Object); err == nil && len(ids) > 0 {
			ports, err = store.List[store.Port](ctx, tx, store.Filter{IDs: ids})
			ports = slices.DeleteFunc(ports, func(o store.Port) bool { return !slices.Contains(ids, o.ID) })
		}
	}
	for _, port := range ports {
		if !strings.HasPrefix(port.Owner, "network:") {
			users[port.Project] = true
		}
	}
	for _, sub := range subnets {
		users[sub.Project] = true
	}
	return users, err
}

// projectOf returns the project of the object of an RBAC policy, or fault.NotFound.
func projectOf(ctx context.Context, tx *store.Tx, p store.RBACPolicy) (string, error) {
	switch p.Type {
	case SharedNetwork:
		n, err := GetIn[store.Network](ctx, tx, p.Object)
		return n.Project, err
	case SharedPolicy:
		o, err := GetIn[store.Policy](ctx, tx, p.Object)
		return o.Project, err
	case SharedPool:
		o, err := GetIn[store.SubnetPool](ctx, tx, p.Object)
		return o.Project, err
	}
	g, err := GetIn[store.SecurityGroup](ctx, tx, p.Object)
	return g.Project, err
}

// flag sets the attribute shared of an object: it is shared with all projects by one of its RBAC policies.
func (s Sharing) flag(ctx context.Context, tx *store.Tx, p store.RBACPolicy, all []store.RBACPolicy) error {
	shared := slices.ContainsFunc(all, func(o store.RBACPolicy) bool { return o.Target == AllProjects })
	switch p.Type {
	case SharedNetwork:
		return setFlag(ctx, tx, s, p.Object, shared, func(n *store.Network) *bool { return &n.Shared })
	case SharedPolicy:
		return setFlag(ctx, tx, s, p.Object, shared, func(o *store.Policy) *bool { return &o.Shared })
	case SharedPool:
		return setFlag(ctx, tx, s, p.Object, shared, func(o *store.SubnetPool) *bool { return &o.Shared })
	}
	return nil
}

func setFlag[T any, P store.Pointer[T]](ctx context.Context, tx *store.Tx, s Sharing, id string, shared bool,
	flag func(*T) *bool) error {
	o, err := GetIn[T, P](ctx, tx, id)
	if err != nil || *flag(&o) == shared {
		return err
	}
	if err := checkNotPending(ctx, tx, id); err != nil {
		return err
	}
	*flag(&o) = shared
	s.edited(P(&o).Common())
	return store.Put[T, P](ctx, tx, &o)
}

// share writes the RBAC policy that follows from the attribute shared of an object, or removes it. The object must be
// written afterwards.
func (s Sharing) share(ctx context.Context, tx *store.Tx, kind string, b store.Base, before, shared bool) error {
	p := store.RBACPolicy{Base: store.Base{Project: b.Project}, Type: kind, Object: b.ID, Action: AccessAsShared,
		Target: AllProjects}
	if before == shared {
		return nil
	}
	all, err := s.others(ctx, tx, p)
	switch {
	case err != nil:
		return err
	case shared && slices.ContainsFunc(all, func(o store.RBACPolicy) bool { return o.Target == AllProjects }):
		return nil
	case shared:
		s.begin(&p.Base)
		return store.Put(ctx, tx, &p)
	}
	left := slices.Clone(all)
	left = slices.DeleteFunc(left, func(o store.RBACPolicy) bool { return o.Target == AllProjects })
	if err := s.checkUsers(ctx, tx, p, left); err != nil {
		return err
	}
	for _, o := range all {
		if o.Target != AllProjects {
			continue
		}
		if err := store.Delete[store.RBACPolicy](ctx, tx, o.ID); err != nil {
			return err
		}
	}
	return nil
}

// forget removes the RBAC policies of an object that is deleted.
func (s Sharing) forget(ctx context.Context, tx *store.Tx, object string) error {
	all, err := store.List[store.RBACPolicy](ctx, tx, store.Filter{Policies: []string{object}})
	for _, p := range all {
		if err := store.Delete[store.RBACPolicy](ctx, tx, p.ID); err != nil {
			return err
		}
	}
	return err
}
