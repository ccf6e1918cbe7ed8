package operations

import (
	"context"

	"github.com/openberth/berth/network/store"
)

// DefaultQuotas returns Neutron's default limits of a project, by resource.
func DefaultQuotas() map[string]int {
	return map[string]int{"network": 100, "subnet": 100, "port": 500, "qos_policy": 100, "rbac_policy": 10,
		"subnetpool": -1, "security_group": 10,
		"security_group_rule": 100}
}

// Limits returns the limits of a project, and those that are set for it alone.
func (s *Service) Limits(ctx context.Context, project string) (limits map[string]int, own bool, err error) {
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		limits, own, err = s.limits(ctx, tx, project)
		return err
	})
	return limits, own, err
}

func (s *Service) limits(ctx context.Context, tx *store.Tx, project string) (map[string]int, bool, error) {
	q, found, err := store.Get[store.Quota](ctx, tx, project)
	limits := map[string]int{}
	for resource, limit := range s.Quotas {
		limits[resource] = limit
	}
	for resource, own := range q.Limits {
		limits[resource] = own
	}
	return limits, found, err
}

// SetLimits changes limits of a project.
func (s *Service) SetLimits(ctx context.Context, project string, limits map[string]int) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		q, found, err := store.Get[store.Quota](ctx, tx, project)
		if err != nil {
			return err
		}
		if !found {
			q = store.Quota{Base: store.Base{ID: project, Project: project}, Limits: map[string]int{}}
			s.begin(&q.Base)
		}
		for resource, limit := range limits {
			q.Limits[resource] = limit
		}
		s.edited(&q.Base)
		return store.Put(ctx, tx, &q)
	})
}

// ResetLimits removes the limits of a project; the defaults apply again.
func (s *Service) ResetLimits(ctx context.Context, project string) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		_, found, err := store.Get[store.Quota](ctx, tx, project)
		if err == nil && !found {
			err = notFound("TenantQuota", project)
		}
		if err != nil {
			return err
		}
		return store.Delete[store.Quota](ctx, tx, project)
	})
}

// Projects returns the quotas of the projects that have limits of their own.
func (s *Service) Projects(ctx context.Context) ([]store.Quota, error) {
	return List[store.Quota](ctx, s, store.Filter{})
}

// Used returns the number of objects of a project by resource.
func (s *Service) Used(ctx context.Context, project string) (used map[string]int, err error) {
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		used = map[string]int{}
		for resource := range s.Quotas {
			if used[resource], err = count(ctx, tx, resource, project); err != nil {
				return err
			}
		}
		return nil
	})
	return used, err
}

func count(ctx context.Context, tx *store.Tx, resource, project string) (int, error) {
	f := store.Filter{Projects: []string{project}}
	switch resource {
	case "network":
		return store.Count[store.Network](ctx, tx, f)
	case "subnet":
		return store.Count[store.Subnet](ctx, tx, f)
	case "port":
		return store.Count[store.Port](ctx, tx, f)
	case "rbac_policy":
		return store.Count[store.RBACPolicy](ctx, tx, f)
	case "subnetpool":
		return store.Count[store.SubnetPool](ctx, tx, f)
	case "security_group":
		return store.Count[store.SecurityGroup](ctx, tx, f)
	case "security_group_rule":
		return store.Count[store.SecurityGroupRule](ctx, tx, f)
	}
	return store.Count[store.Policy](ctx, tx, f)
}

// checkQuota refuses one more object of a project over its limit.
func (s *Service) checkQuota(ctx context.Context, tx *store.Tx, resource, project string) error {
	limits, _, err := s.limits(ctx, tx, project)
	if err != nil || limits[resource] < 0 {
		return err
	}
	used, err := count(ctx, tx, resource, project)
	if err == nil && used >= limits[resource] {
		err = conflict("OverQuota", "Quota exceeded for resources: ['%s']. Project %s has %d of %d; delete some, or an "+
			"administrator raises the limit with `openstack quota set`", resource, project, used, limits[resource])
	}
	return err
}
