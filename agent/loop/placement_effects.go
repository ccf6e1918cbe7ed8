package loop

import (
	"context"
	"slices"

	"github.com/openberth/berth/agent/kind"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Tree performs the effects of the state machine in Placement, for one host.
type Tree struct {
	Placement Placement
	Host      string // name of the root provider
	Kinds     []kind.Kind
}

// Observe reads the tree of the host, and the other trees with providers of the host, into an observation.
func (t Tree) Observe(ctx context.Context, e state.Observe, o *state.Observation) error {
	if err := t.observeHost(ctx, e, o); err != nil {
		return err
	}
	for _, k := range t.Kinds {
		if err := t.checkNames(ctx, k, *o); err != nil {
			return err
		}
	}
	for _, name := range e.Hypervisors {
		o.Elsewhere = append(o.Elsewhere, t.hypervisor(ctx, name))
	}
	for _, id := range e.Owned {
		if t.contains(o, id) {
			continue
		}
		tree, err := t.read(ctx, id)
		if err != nil || len(tree.Providers) > 0 {
			o.Elsewhere = append(o.Elsewhere, state.OtherTree{Tree: tree, Err: err})
		}
	}
	return nil
}

// checkNames returns Invalid if another host has a provider with a name that this host would give to that of a device
// of a kind. It reads only the names that the host's tree lacks.
func (t Tree) checkNames(ctx context.Context, k kind.Kind, o state.Observation) error {
	h := kind.Host{Name: t.Host, Part: o.Machine.Parts[k.Name]}
	if h.Part == nil {
		return nil
	}
	names, remedy := k.SharedNames(h)
	for _, name := range names {
		if _, own := o.Tree.ByName(name); own {
			continue
		}
		other, err := t.Placement.ProviderByName(ctx, name)
		switch {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			return err
		default:
			return fault.New(fault.Invalid, "Placement has a provider %q in another tree (root %s), so nothing of this host "+
				"is written: %s", name, other.Root, remedy)
		}
	}
	return nil
}

// hypervisor reads the tree of the provider with a name.
func (t Tree) hypervisor(ctx context.Context, name string) (other state.OtherTree) {
	other.Name = name
	named, err := t.Placement.ProviderByName(ctx, name)
	switch {
	case err == nil:
		other.Tree, other.Err = t.read(ctx, named.ID)
	case !fault.Is(err, fault.NotFound):
		other.Err = err
	}
	return other
}

// contains reports whether a provider is in a tree that was read.
func (Tree) contains(o *state.Observation, id provider.ID) bool {
	_, found := o.Tree.ByID(id)
	for _, other := range o.Elsewhere {
		_, there := other.Tree.ByID(id)
		found = found || there
	}
	return found
}

// observeHost reads the tree of the host into an observation.
func (t Tree) observeHost(ctx context.Context, e state.Observe, o *state.Observation) (err error) {
	if o.Tree, err = t.read(ctx, e.Root); err != nil || len(o.Tree.Providers) > 0 {
		return err
	}
	o.ByName = true
	root := e.Journalled
	named, err := t.Placement.ProviderByName(ctx, t.Host)
	switch {
	case err == nil:
		o.Named, root = &named, named.ID
	case !fault.Is(err, fault.NotFound):
		return err
	}
	o.Tree, err = t.read(ctx, root)
	return err
}

// read returns the tree of a provider; empty when there is no such provider, or for an empty id.
func (t Tree) read(ctx context.Context, id provider.ID) (provider.Tree, error) {
	if id == "" {
		return provider.Tree{}, nil
	}
	tree, err := t.Placement.Tree(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return provider.Tree{}, nil
	}
	return tree, err
}

// ReadUses reads the allocations of providers: with Berth's Placement those of the host's tree in one request.
func (t Tree) ReadUses(ctx context.Context, e state.ReadUses) (treeplan.Uses, error) {
	uses := treeplan.Uses{}
	rest := e.Providers
	inTree := func(id provider.ID) bool { _, is := e.Tree.ByID(id); return is }
	if root, _ := e.Tree.Root(); len(rest) > 1 && slices.ContainsFunc(rest, inTree) {
		all, err := t.Placement.TreeAllocations(ctx, root.ID, true)
		if err != nil {
			return nil, err
		}
		if all.Whole {
			for _, id := range rest {
				if inTree(id) {
					uses[id] = all.By[id]
				}
			}
			rest = slices.DeleteFunc(slices.Clone(rest), inTree)
		}
	}
	for _, id := range rest {
		who, err := t.Placement.ProviderAllocations(ctx, id)
		if err != nil {
			return nil, err
		}
		uses[id] = who
	}
	for id, who := range uses {
		if who == nil {
			uses[id] = map[resource.ConsumerID]resource.Amounts{}
		}
	}
	return uses, nil
}

// ReadAllocations reads the allocations of consumers.
func (t Tree) ReadAllocations(ctx context.Context, consumers []resource.ConsumerID) (
	map[resource.ConsumerID]placement.ConsumerAllocation, error) {
	out := map[resource.ConsumerID]placement.ConsumerAllocation{}
	for _, consumer := range consumers {
		has, err := t.Placement.Allocation(ctx, consumer)
		if err != nil {
			return nil, err
		}
		out[consumer] = has
	}
	return out, nil
}

// WriteProvider makes one call to Placement and returns the provider's generation after it, if the call returns one.
func (t Tree) WriteProvider(ctx context.Context, e state.WriteProvider) (generation int, err error) {
	switch p, s := t.Placement, e.Step; s.Op {
	case treeplan.CreateClass:
		return 0, p.EnsureClass(ctx, resource.Class(s.Name))
	case treeplan.CreateTrait:
		return 0, p.EnsureTrait(ctx, resource.Trait(s.Name))
	case treeplan.CreateProvider:
		made, err := p.CreateProvider(ctx, s.Provider, s.Name, s.Parent)
		return made.Generation, t.nameFault(s.Name, err)
	case treeplan.MoveProvider:
		moved, err := p.PutProvider(ctx, s.Provider, s.Name, s.Parent)
		return moved.Generation, err
	case treeplan.PutTraits:
		return p.PutTraits(ctx, s.Provider, s.Generation, s.Traits)
	case treeplan.PutInventories:
		return p.PutInventories(ctx, s.Provider, s.Generation, s.Inventories)
	case treeplan.Reshape:
		return 0, p.Reshape(ctx, e.Reshape)
	case treeplan.DeleteProvider:
		if err := p.DeleteProvider(ctx, s.Provider); !fault.Is(err, fault.NotFound) {
			return 0, err
		}
		return 0, nil
	}
	return 0, fault.New(fault.Internal, "unknown operation %q", e.Step.Op)
}

// nameFault adds the remedy of its kind to the refusal of a name that another host uses.
func (t Tree) nameFault(name string, err error) error {
	if fault.CodeOf(err) != placement.CodeDuplicateName {
		return err
	}
	for _, k := range t.Kinds {
		if remedy := k.NameTaken(name); remedy != "" {
			return fault.New(fault.KindOf(err), "another host has a provider %q: %s", name, remedy).
				WithCode(placement.CodeDuplicateName)
		}
	}
	return err
}
