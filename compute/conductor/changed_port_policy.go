package conductor

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file is about ports whose QoS policy has changed since compute read them. The network service then changes the
// amounts in Placement, and the ids of the groups change too. The record of the server still has the former ones, for
// example when a move is reverted.

// groupsOf returns the groups that a port requests.
func groupsOf(p network.Port) (groups []resource.Group) {
	if p.Request == nil {
		return nil
	}
	for _, g := range p.Request.Groups {
		group := resource.Group{Suffix: cmp.Or(g.ID, p.ID), Resources: g.Resources}
		for _, name := range g.Required {
			group.Required = append(group.Required, portrequest.ParseRequired(name))
		}
		groups = append(groups, group)
	}
	return groups
}

// asRequestedNow returns a port of a record with the groups that it requests now, and their providers: of a group with
// the same id, of the same classes, or those that the network service has given it on this host.
func asRequestedNow(want lifecycle.Port, p network.Port, host string) lifecycle.Port {
	now := readPort(p, lifecycle.NetworkRequest{}, "")
	if len(want.Groups) == 0 && len(now.Groups) == 0 {
		return want
	}
	allocation := map[string]provider.ID{}
	for _, g := range now.Groups {
		if at := providerOf(want, g); at != "" {
			allocation[g.Suffix] = at
		} else if p.Host == host {
			if at := p.Allocation()[g.Suffix]; at != "" {
				allocation[g.Suffix] = provider.ID(at)
			}
		}
	}
	want.Groups, want.SameSubtree, want.Allocation = now.Groups, now.SameSubtree, allocation
	return want
}

// addProviders returns a port with the only providers on the server's host that can serve the groups without one: the
// port got its first guarantee of a kind on another host, and a move is reverted. If there are none, or several, these
// groups stay without, because the guest exists; the log has the reason, and healing ports repeats the choice.
func (d *portBinder) addProviders(ctx context.Context, s lifecycle.Server, want lifecycle.Port, p network.Port,
	devices map[string]schedule.Device) (lifecycle.Port, error) {
	missing := slices.DeleteFunc(slices.Clone(want.Groups), func(g resource.Group) bool {
		return want.Allocation[g.Suffix] != "" || len(positive(g.Resources)) == 0
	})
	if len(missing) == 0 {
		return want, nil
	}
	host, err := d.store.Host(ctx, s.Host)
	if err != nil {
		return want, err
	}
	h := d.read().portPlanner()
	parents, err := h.parents(ctx, host.Provider)
	if err != nil {
		return want, err
	}
	p.Profile = boundProfile(p.Profile, want, devices)
	found, reason, err := h.choose(ctx, &portsPlan{server: s, host: host, parents: parents}, p, want, missing,
		want.Allocation)
	if err != nil {
		return want, err
	}
	if reason != "" {
		d.Log.Warn("a guarantee of a port has no allocation on the host", "server", s.ID, "host", s.Host, "port", p.ID,
			"reason", reason)
		return want, nil
	}
	want.Allocation = maps.Clone(want.Allocation)
	maps.Copy(want.Allocation, found)
	return want, nil
}

// providerOf returns the provider that a port of a record has for a group; empty if it has none.
func providerOf(p lifecycle.Port, g resource.Group) provider.ID {
	if at := p.Allocation[g.Suffix]; at != "" {
		return at
	}
	for _, old := range p.Groups {
		same := maps.EqualFunc(old.Resources, g.Resources, func(int, int) bool { return true })
		if at := p.Allocation[old.Suffix]; same && at != "" {
			return at
		}
	}
	return ""
}

// correctAmounts sets what a server has in Placement for its ports, if a policy has changed since they were recorded:
// a reverted move restores the allocation of the source as it was. If the host has no room for the present policy, the
// former amounts stay.
func (d *portBinder) correctAmounts(ctx context.Context, s lifecycle.Server, bound []lifecycle.Port) error {
	changed := false
	for _, p := range bound {
		for _, old := range s.Ports {
			changed = changed || old.ID == p.ID && !reflect.DeepEqual(old.Groups, p.Groups)
		}
	}
	if !changed {
		return nil
	}
	err := d.setPortAmounts(ctx, s, portAmounts{})
	if err != nil && refused(err) {
		d.Log.Warn("the host has no room for the changed policy of a port, so the former amounts stay allocated",
			"server", s.ID, "host", s.Host, "error", fault.TextOf(err))
		return nil
	}
	return err
}
