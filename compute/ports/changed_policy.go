package ports

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file is about ports whose QoS policy has changed since compute read them. The network service then changes the
// amounts in Placement, and the ids of the groups change too. The record of the server still has the former ones, for
// example when a move is reverted.

// asRequestedNow returns a port of a record with the groups that it requests now, and their providers: of a group with
// the same id, of the same classes, or those that the network service has given it on this host.
func asRequestedNow(want lifecycle.Port, p network.Port, host string) lifecycle.Port {
	now := scheduler.ReadPort(p, lifecycle.NetworkRequest{}, "")
	if len(want.Groups) == 0 && len(now.Groups) == 0 {
		want.Revision = now.Revision
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
	want.Revision = now.Revision
	return want
}

// claimPolicy returns a port of a record with the providers of what it requests now. If that differs from the record,
// it first sets what the server has in Placement for the port: the network service changes the amounts of bound ports
// only. If there is no room, a guest that exists keeps what the port had, with the reason in short; else claimPolicy
// returns fault.Conflict.
func (b portBinding) claimPolicy(ctx context.Context, record lifecycle.Port, p network.Port) (want lifecycle.Port,
	err error) {
	delete(b.short, record.ID)
	known := asRequestedNow(record, p, b.server.Host)
	want, reason, err := b.addProviders(ctx, known, p)
	if err != nil {
		return want, err
	}
	changed := b.verify || !reflect.DeepEqual(record.Groups, want.Groups) ||
		!maps.Equal(known.Allocation, want.Allocation)
	if reason == "" && changed {
		if reason, err = b.countGrowth(ctx, b.server.ID, record, want); err != nil {
			return want, err
		}
	}
	if reason == "" && changed {
		amounts := Amounts{Port: want.ID, Of: guaranteesOf(want), Keep: b.short}
		if err = b.SetAmounts(ctx, b.server, amounts); err != nil && !placement.Refused(err) {
			return want, err
		}
		reason = fault.TextOf(err)
	}
	switch {
	case reason == "":
		return want, nil
	case !b.guest:
		return want, fault.New(fault.Conflict, "host %s cannot give port %s what its policy, which has "+
			"changed, requests: %s", b.server.Host, want.ID, reason)
	}
	b.short[want.ID] = reason
	b.Log.Warn("a port keeps what it had before its policy changed", "server", b.server.ID,
		"host", b.server.Host, "port", want.ID, "reason", reason)
	return want, nil
}

// addProviders returns a port with the only providers on the server's host that can serve the groups without one: the
// port got its first guarantee of a kind elsewhere. If there are none, or several, it returns the reason.
func (b portBinding) addProviders(ctx context.Context, want lifecycle.Port, p network.Port) (all lifecycle.Port,
	reason string, err error) {
	s := b.server
	missing := slices.DeleteFunc(slices.Clone(want.Groups), func(g resource.Group) bool {
		return want.Allocation[g.Suffix] != "" || len(g.Resources.Positive()) == 0
	})
	if len(missing) == 0 {
		return want, "", nil
	}
	plan := portsPlan{server: s}
	if plan.host, err = b.store.Host(ctx, s.Host); err != nil {
		return want, "", err
	}
	planner := b.planner()
	if plan.tree, err = planner.tree(ctx, plan.host.Provider); err != nil {
		return want, "", err
	}
	held, err := b.Writer.Allocation(ctx, resource.ConsumerID(s.ID))
	if err != nil {
		return want, "", err
	}
	plan.held = held.Allocation
	for _, other := range s.Ports {
		if other.ID != want.ID {
			plan.others = plan.others.Add(guaranteesOf(other))
		}
	}
	p.Profile = boundProfile(p.Profile, want, b.devices)
	found, reason, err := planner.choose(ctx, &plan, p, missing, want.Allocation)
	if err != nil || reason != "" {
		return want, reason, err
	}
	want.Allocation = maps.Clone(want.Allocation)
	maps.Copy(want.Allocation, found)
	return want, "", nil
}

// providerOf returns the provider that a port of a record has for a group; empty if it has none. A kind of guarantee
// stays on its provider, in whatever direction.
func providerOf(p lifecycle.Port, g resource.Group) provider.ID {
	if at := p.Allocation[g.Suffix]; at != "" {
		return at
	}
	for _, old := range p.Groups {
		if at := p.Allocation[old.Suffix]; at != "" && guaranteeOf(old.Resources) == guaranteeOf(g.Resources) {
			return at
		}
	}
	return ""
}

// guarantee is a kind of guarantee. A packet rate with a direction and one without are on different providers.
type guarantee string

// guaranteeOf returns the kind of guarantee of the amounts of a group.
func guaranteeOf(amounts resource.Amounts) guarantee {
	for class := range amounts {
		switch class {
		case bandwidth.EgressBandwidth, bandwidth.IngressBandwidth:
			return "bandwidth"
		case bandwidth.PacketRate:
			return "packet rate"
		}
	}
	return "directed packet rate"
}
