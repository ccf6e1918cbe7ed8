package loop

import (
	"cmp"
	"sync"

	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// fakePlacement is a Placement in memory that counts writes and can fail.
type fakePlacement struct {
	*placementtest.Placement
	fail func(call string) error // called before each call; set it while no agent runs

	mu     sync.Mutex
	writes int
}

func newFakePlacement() *fakePlacement {
	p := &fakePlacement{Placement: placementtest.New(nil)}
	p.Fail = func(call placementtest.Call) (before, after error) {
		if p.fail != nil {
			if err := p.fail(call.Op); err != nil {
				return err, nil
			}
		}
		if call.Writes() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.writes++
		}
		return nil, nil
	}
	return p
}

// all returns all allocations.
func (p *fakePlacement) all() map[resource.ConsumerID]resource.Allocation {
	out := map[resource.ConsumerID]resource.Allocation{}
	for _, id := range p.Consumers() {
		out[id] = p.Held(id)
	}
	return out
}

// remove deletes the allocation of a consumer.
func (p *fakePlacement) remove(id resource.ConsumerID) { p.SetAllocation(id, nil) }

// set replaces what a consumer has of one provider.
func (p *fakePlacement) set(id resource.ConsumerID, of provider.ID, amounts resource.Amounts) {
	next := resource.Allocation{of: amounts}
	for other, held := range p.Held(id) {
		if other != of {
			next[other] = held
		}
	}
	p.SetAllocation(id, next)
}

// move moves the allocation of one consumer to another.
func (p *fakePlacement) move(from, to resource.ConsumerID) {
	p.SetAllocation(to, p.Held(from))
	p.remove(from)
}

// tree returns all providers.
func (p *fakePlacement) tree() (tree provider.Tree) {
	for _, id := range p.ProviderIDs() {
		one, _ := p.Provider(id)
		tree.Providers = append(tree.Providers, one)
	}
	return tree
}

// setTree replaces all providers.
func (p *fakePlacement) setTree(providers ...provider.Provider) {
	for _, id := range p.ProviderIDs() {
		p.RemoveProvider(id)
	}
	for _, one := range providers {
		one.Root = cmp.Or(one.Root, one.Parent, one.ID)
		p.SetProvider(one)
	}
}

// change changes a provider, as another client of Placement does.
func (p *fakePlacement) change(name string, how func(*provider.Provider)) {
	one, found := p.tree().ByName(name)
	if !found {
		return
	}
	how(&one)
	one.Generation++
	p.SetProvider(one)
}
