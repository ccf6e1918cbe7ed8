package placementtest

import (
	"maps"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The methods in this file have no context: tests use them to look at the database and to change it. They do not call
// Fail. What they return is shared with the database and must not be modified.

// Provider returns a provider with its inventories and traits.
func (p *Placement) Provider(id provider.ID) (provider.Provider, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if row := p.providers[id]; row != nil {
		return *row, true
	}
	return provider.Provider{}, false
}

// TreeIDs returns the providers of the tree with this root, in the order of their creation.
func (p *Placement) TreeIDs(root provider.ID) []provider.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trees[root]
}

// ProviderIDs returns all providers, sorted.
func (p *Placement) ProviderIDs() []provider.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.providers))
}

// Consumers returns all consumers with an allocation, sorted.
func (p *Placement) Consumers() []resource.ConsumerID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.consumers))
}

// Held returns the allocation of a consumer; nil without one.
func (p *Placement) Held(id resource.ConsumerID) resource.Allocation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.consumers[id].allocation
}

// Holders returns the allocations on a provider, by consumer.
func (p *Placement) Holders(id provider.ID) map[resource.ConsumerID]resource.Amounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holders[id]
}

// Used returns the sum of the allocations on a provider.
func (p *Placement) Used(id provider.ID) resource.Amounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used[id]
}

// SetProvider creates or replaces a provider, with its generation, and checks nothing. Its root must exist, or be the
// provider itself. Its classes and traits exist from then on.
func (p *Placement) SetProvider(next provider.Provider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next.Root == "" {
		next.Root = next.ID
	}
	for class := range next.Inventories {
		p.classes[class] = true
	}
	for _, trait := range next.Traits {
		p.traits[trait] = true
	}
	if row := p.providers[next.ID]; row != nil && row.Root == next.Root {
		*row = next
		p.touch(next.Root)
		return
	} else if row != nil {
		p.remove(row)
	}
	p.add(next)
}

// RemoveProvider removes a provider and checks nothing. Allocations on it remain.
func (p *Placement) RemoveProvider(id provider.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if row := p.providers[id]; row != nil {
		p.remove(row)
	}
}

// SetAllocation replaces the allocation of a consumer and checks nothing. A new consumer is a server. It raises the
// generation of the consumer, and of the providers that the allocation names.
func (p *Placement) SetAllocation(id resource.ConsumerID, allocation resource.Allocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, exists := p.consumers[id]
	if !exists {
		next.project, next.user, next.kind = "project", "user", instance
	}
	next.allocation, next.generation = allocation.Add(nil), next.generation+1
	p.write(id, next)
	for on := range next.allocation {
		if row := p.providers[on]; row != nil {
			row.Generation++
		}
	}
}
