package loop

import (
	"context"

	"github.com/openberth/berth/agent/heal"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// observe reads the host, its guests, and its tree in Placement.
func (a *Agent) observe(ctx context.Context, e reconcile.Observe) (o reconcile.Observation, err error) {
	if o.Machine, err = sysfs.Read(a.o.Sys); err != nil {
		return o, err
	}
	o.Machine.ReadSerials(a.o.Sys, a.o.Rules.NeedSerial)
	if o.Guests, err = a.o.Hypervisor.Guests(ctx); err != nil {
		return o, fault.Wrap("", "hypervisor.Guests", err)
	}
	if o.Capacity, err = a.o.Hypervisor.Capacity(ctx); err != nil {
		return o, fault.Wrap("", "hypervisor.Capacity", err)
	}
	if o.Tree, err = a.readTree(ctx, e.Root); err != nil || len(o.Tree.Providers) > 0 {
		return o, err
	}
	o.ByName = true
	root := e.Journalled
	named, err := a.o.Placement.ProviderByName(ctx, a.o.Host)
	switch {
	case err == nil:
		o.Named, root = &named, named.ID
	case !fault.Is(err, fault.NotFound):
		return o, err
	}
	o.Tree, err = a.readTree(ctx, root)
	return o, err
}

// readTree returns the tree of a provider; empty when there is no such provider, or for an empty id.
func (a *Agent) readTree(ctx context.Context, id provider.ID) (provider.Tree, error) {
	if id == "" {
		return provider.Tree{}, nil
	}
	tree, err := a.o.Placement.Tree(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return provider.Tree{}, nil
	}
	return tree, err
}

// readUses reads the allocations of providers.
func (a *Agent) readUses(ctx context.Context, ids []provider.ID) (heal.Uses, error) {
	uses := heal.Uses{}
	for _, id := range ids {
		who, err := a.o.Placement.ProviderAllocations(ctx, id)
		if err != nil {
			return nil, err
		}
		if uses[id] = who; who == nil {
			uses[id] = map[resource.ConsumerID]resource.Amounts{}
		}
	}
	return uses, nil
}

// readAllocations reads the allocations of consumers.
func (a *Agent) readAllocations(ctx context.Context, consumers []resource.ConsumerID) (
	map[resource.ConsumerID]placement.ConsumerAllocation, error) {
	out := map[resource.ConsumerID]placement.ConsumerAllocation{}
	for _, consumer := range consumers {
		has, err := a.o.Placement.Allocation(ctx, consumer)
		if err != nil {
			return nil, err
		}
		out[consumer] = has
	}
	return out, nil
}

// writeProvider makes one call to Placement and returns the provider's generation after it, if the call returns one.
func (a *Agent) writeProvider(ctx context.Context, e reconcile.WriteProvider) (generation int, err error) {
	switch p, s := a.o.Placement, e.Step; s.Op {
	case heal.CreateClass:
		return 0, p.EnsureClass(ctx, resource.Class(s.Name))
	case heal.CreateTrait:
		return 0, p.EnsureTrait(ctx, resource.Trait(s.Name))
	case heal.CreateProvider:
		made, err := p.CreateProvider(ctx, s.Provider, s.Name, s.Parent)
		return made.Generation, err
	case heal.PutTraits:
		return p.PutTraits(ctx, s.Provider, s.Generation, s.Traits)
	case heal.PutInventories:
		return p.PutInventories(ctx, s.Provider, s.Generation, s.Inventories)
	case heal.Reshape:
		return 0, p.Reshape(ctx, e.Reshape)
	case heal.DeleteProvider:
		if err := p.DeleteProvider(ctx, s.Provider); !fault.Is(err, fault.NotFound) {
			return 0, err
		}
		return 0, nil
	}
	return 0, fault.New(fault.Internal, "loop.writeProvider", "unknown operation %q", e.Step.Op)
}
