package conductor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Providers is what forgetting a host needs of a Placement service; *placement.Client is one. NotFound: there is no such provider. Conflict:
// it has children, or somebody holds something of it.
type Providers interface {
	Tree(ctx context.Context, id provider.ID) (provider.Tree, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	DeleteProvider(ctx context.Context, id provider.ID) error
}

// managed marks the children of a host's provider that Berth's agents, or Nova's, have made for devices.
const managed resource.Trait = "COMPUTE_MANAGED_PCI_DEVICE"

// mostNamed is how many servers or holders a refusal names.
const mostNamed = 5

// HostForget forgets a host that will never return: its report here, and its providers in Placement. Those that others have made below it, and what
// these stand on, are kept; their names are returned. fault.NotFound when no agent has reported for it; fault.Conflict while its agent
// reports, a server stands there or has left something there, or anybody holds something of its providers.
func (c *Conductor) HostForget(ctx context.Context, name string) (removed, kept []string, err error) {
	const op = "conductor.HostForget"
	ctx, stop, err := c.leased(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	host, err := c.store.Host(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if reports, err := c.stillAlive(ctx, name); err != nil || reports != "" {
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, fault.New(fault.Conflict, op, "host %s may still be alive: %s; end its agent and wait until it is silent, or say that it is dead (`berth host down %s`)", name, reports, name)
	}
	stand, err := c.standing(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if len(stand) > 0 {
		return nil, nil, fault.New(fault.Conflict, op, "servers stand on host %s, or have left something there: %s; delete or evacuate them first (and `berth host down %s` gives back what they left)",
			name, some(stand), name)
	}
	tree, err := c.Providers.Tree(ctx, host.Provider)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, nil, err
	}
	holders, err := c.holders(ctx, tree)
	if err != nil {
		return nil, nil, err
	}
	if len(holders) > 0 {
		return nil, nil, fault.New(fault.Conflict, op, "in Placement somebody holds what host %s has: %s; delete these allocations first, if their consumers are no more", name, some(holders))
	}
	if _, there := tree.ByID(host.Provider); there {
		if removed, kept, err = c.uproot(ctx, tree, host.Provider, host.Provider); err != nil {
			return removed, kept, err
		}
	}
	if err := c.store.Forget(ctx, name); err != nil {
		return removed, kept, err
	}
	c.audits.forget(name)
	return removed, kept, nil
}

// stillAlive says in a sentence why a host must not be forgotten: its agent is alive. A host that an operator has
// declared dead need not have been silent for long; but if its agent is connected, or has reported since, it has
// returned.
func (c *Conductor) stillAlive(ctx context.Context, name string) (reports string, err error) {
	if reports, err = c.silent(ctx, name); err != nil || reports != "" || !c.presence.returned(name) {
		return reports, err
	}
	return "it has been declared dead, and its agent is connected or has reported since", nil
}

// standing names the servers that stand on a host or have left something there.
func (c *Conductor) standing(ctx context.Context, host string) (names []string, err error) {
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

// holders says who holds what of a tree.
func (c *Conductor) holders(ctx context.Context, tree provider.Tree) (out []string, err error) {
	for _, p := range tree.Providers {
		held, err := c.Providers.ProviderAllocations(ctx, p.ID)
		if err != nil {
			return nil, err
		}
		for _, consumer := range slices.Sorted(maps.Keys(held)) {
			for _, class := range slices.Sorted(maps.Keys(held[consumer])) {
				out = append(out, fmt.Sprintf("%s holds %d %s of %s", consumer, held[consumer][class], class, p.Name))
			}
		}
	}
	return out, nil
}

// uproot removes a provider and what is below it, the lowest first, but for what others have made and what that stands on.
func (c *Conductor) uproot(ctx context.Context, tree provider.Tree, root, at provider.ID) (removed, kept []string, err error) {
	for _, child := range tree.Providers {
		if child.Parent != at {
			continue
		}
		gone, stays, err := c.uproot(ctx, tree, root, child.ID)
		removed, kept = append(removed, gone...), append(kept, stays...)
		if err != nil {
			return removed, kept, err
		}
	}
	p, _ := tree.ByID(at)
	if len(kept) > 0 || at != root && !p.HasTrait(managed) {
		return removed, append(kept, p.Name), nil
	}
	if err := c.Providers.DeleteProvider(ctx, at); err != nil && !fault.Is(err, fault.NotFound) {
		return removed, kept, err
	}
	return append(removed, p.Name), kept, nil
}

// some are the first of a list as one text.
func some(list []string) string {
	if more := len(list) - mostNamed; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:mostNamed], ", "), more)
	}
	return strings.Join(list, ", ")
}
