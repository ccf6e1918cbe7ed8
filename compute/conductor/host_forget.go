package conductor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// managed is the trait of providers that Berth's or Nova's agents have created for devices.
const managed resource.Trait = "COMPUTE_MANAGED_PCI_DEVICE"

// HostForget deletes the report of a host that will never return, and its providers in Placement. It keeps providers
// that other services have created below them, and their ancestors. It returns the names of the providers that it has
// removed and kept. It returns fault.NotFound if no agent has reported for the host; fault.Conflict while its agent
// reports, a server is placed there or has left something there, or its providers have allocations.
func (c *Conductor) HostForget(ctx context.Context, name string) (removed, kept []string, err error) {
	ctx, stop, err := c.leased(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	host, err := c.store.Host(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if reports, err := c.whyNotForgotten(ctx, name); err != nil || reports != "" {
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, fault.New(fault.Conflict, "host %s may still be alive: %s; end its agent and wait until "+
			"then (`berth host forget %s --wait`), or declare the host dead (`berth host down %s`)", name, reports, name, name)
	}
	servers, err := c.serversOn(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if len(servers) > 0 {
		return nil, nil, fault.New(fault.Conflict, "servers are placed on host %s, or have left something there: "+
			"%s; delete or evacuate them first (`berth host down %s` releases what they left)",
			name, audit.JoinFirst(servers), name)
	}
	tree, err := c.Providers.Tree(ctx, host.Provider)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, nil, err
	}
	allocations, err := allocationsOf(ctx, c.Providers, tree)
	if err != nil {
		return nil, nil, err
	}
	if len(allocations) > 0 {
		return nil, nil, fault.New(fault.Conflict, "the providers of host %s have allocations in Placement: %s; "+
			"delete these allocations first if their consumers no longer exist", name, audit.JoinFirst(allocations))
	}
	if _, exists := tree.ByID(host.Provider); exists {
		if removed, kept, err = deleteTree(ctx, c.Providers, tree, host.Provider, host.Provider); err != nil {
			return removed, kept, err
		}
	}
	if err := c.store.Forget(ctx, name); err != nil {
		return removed, kept, err
	}
	c.Audits.Forget(name)
	c.Agents.Forget(name)
	return removed, kept, nil
}

// whyNotForgotten returns why the agent of a host counts as alive, as a clause; empty if it does not. The agent of a
// host that an operator has declared dead counts as alive if it has reported since.
func (c *Conductor) whyNotForgotten(ctx context.Context, name string) (reports string, err error) {
	if reports, err = c.Agents.WhyAlive(ctx, name); err != nil || reports != "" {
		return reports, err
	}
	dead, err := c.store.Dead(ctx)
	if err != nil || !slices.Contains(dead, name) || !c.Agents.Returned(name) {
		return "", err
	}
	return "it has been declared dead, and its agent has reported since", nil
}

// serversOn returns the names and ids of the servers that are placed on a host or have left something there.
func (c *dependencies) serversOn(ctx context.Context, host string) (names []string, err error) {
	ids, err := c.store.IDsOnHost(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		server, err := c.store.Read(ctx, id)
		if err != nil {
			return nil, err
		}
		names = append(names, fmt.Sprintf("%s (%s)", server.Name, id))
	}
	return names, nil
}

// allocationsOf returns a sentence for each allocation on the providers of a tree.
func allocationsOf(ctx context.Context, providers Providers, tree provider.Tree) (out []string, err error) {
	for _, p := range tree.Providers {
		held, err := providers.ProviderAllocations(ctx, p.ID)
		if err != nil {
			return nil, err
		}
		for _, consumer := range slices.Sorted(maps.Keys(held)) {
			for _, class := range slices.Sorted(maps.Keys(held[consumer])) {
				out = append(out, fmt.Sprintf("%s has %d %s of %s", consumer, held[consumer][class], class, p.Name))
			}
		}
	}
	return out, nil
}

// deleteTree deletes a provider and its descendants, the lowest first. It keeps providers that other services have
// created, and their ancestors.
func deleteTree(ctx context.Context, providers Providers, tree provider.Tree, root, at provider.ID) (
	removed, kept []string, err error) {
	for _, child := range tree.Providers {
		if child.Parent != at {
			continue
		}
		gone, stays, err := deleteTree(ctx, providers, tree, root, child.ID)
		removed, kept = append(removed, gone...), append(kept, stays...)
		if err != nil {
			return removed, kept, err
		}
	}
	p, _ := tree.ByID(at)
	if len(kept) > 0 || at != root && !p.HasTrait(managed) {
		return removed, append(kept, p.Name), nil
	}
	if err := providers.DeleteProvider(ctx, at); err != nil && !fault.Is(err, fault.NotFound) {
		return removed, kept, err
	}
	return append(removed, p.Name), kept, nil
}
