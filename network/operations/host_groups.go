package operations

import (
	"cmp"
	"context"
	"maps"
	"slices"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/network/store"
)

// hostGroups returns the security groups of ports with their rules, and the members of the groups that rules name.
func hostGroups(ctx context.Context, tx *store.Tx, ports []api.HostPort) (list []api.HostSecurityGroup, err error) {
	all, remote := map[string]*api.HostSecurityGroup{}, map[string]bool{}
	for _, p := range ports {
		for _, id := range p.Groups {
			all[id] = &api.HostSecurityGroup{ID: id}
		}
	}
	ids := slices.Collect(maps.Keys(all))
	if len(ids) == 0 {
		return nil, nil
	}
	groups, err := store.List[store.SecurityGroup](ctx, tx, store.Filter{IDs: ids})
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if all[g.ID] != nil {
			all[g.ID].Stateless = g.Stateless
		}
	}
	rules, err := store.List[store.SecurityGroupRule](ctx, tx, store.Filter{Policies: ids})
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if all[r.Group] == nil {
			continue
		}
		all[r.Group].Rules = append(all[r.Group].Rules, api.HostSecurityGroupRule{ID: r.ID, Direction: r.Direction,
			EtherType: r.EtherType, Protocol: r.Protocol, Min: r.Min, Max: r.Max, RemoteGroup: r.RemoteGroup,
			RemotePrefix: r.RemotePrefix})
		if r.RemoteGroup != "" {
			remote[r.RemoteGroup] = true
		}
	}
	for id := range remote {
		if all[id] == nil {
			all[id] = &api.HostSecurityGroup{ID: id}
		}
		if all[id].Members, err = tx.Members(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, g := range all {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b api.HostSecurityGroup) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}
