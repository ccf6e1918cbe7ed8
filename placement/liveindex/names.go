package liveindex

import (
	"context"
	"strings"
	"sync"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

// Names holds the names of existing resource classes and traits, so that a query need not read each from the database.
// It reads a name that it does not hold from the database, because another process may have added it. It is safe for
// concurrent use.
type Names struct {
	store Store

	mu      sync.RWMutex
	classes map[resource.Class]bool
	traits  map[resource.Trait]bool
}

// NewNames returns an empty cache of the names in a store.
func NewNames(s Store) *Names {
	return &Names{store: s, classes: map[resource.Class]bool{}, traits: map[resource.Trait]bool{}}
}

// Forget removes names from the cache. Call it when they have been, or may have been, deleted.
func (n *Names) Forget(class resource.Class, trait resource.Trait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.classes, class)
	delete(n.traits, trait)
}

// Check returns fault.Invalid if a class or a trait in these groups and lists does not exist.
func (n *Names) Check(ctx context.Context, groups []resource.Group, more ...[]resource.Trait) error {
	var traits []resource.Trait
	for _, list := range more {
		traits = append(traits, list...)
	}
	for _, g := range groups {
		for _, class := range g.Resources.Sorted() {
			if err := n.checkClass(ctx, class); err != nil {
				return err
			}
		}
		for _, any := range g.Required {
			traits = append(traits, any...)
		}
		traits = append(traits, g.Forbidden...)
	}
	return n.checkTraits(ctx, traits)
}

func (n *Names) checkClass(ctx context.Context, name resource.Class) error {
	n.mu.RLock()
	known := n.classes[name]
	n.mu.RUnlock()
	if known {
		return nil
	}
	switch _, err := n.store.Class(ctx, name); {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.Invalid, "Invalid resource class in resources parameter: No such resource class %s.", name)
	case err != nil:
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.classes[name] = true
	return nil
}

func (n *Names) checkTraits(ctx context.Context, traits []resource.Trait) error {
	var ask []resource.Trait
	n.mu.RLock()
	for _, t := range traits {
		if !n.traits[t] {
			ask = append(ask, t)
		}
	}
	n.mu.RUnlock()
	if len(ask) == 0 {
		return nil
	}
	found, err := n.store.Traits(ctx, store.TraitFilter{In: ask})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range found {
		n.traits[t.Name] = true
	}
	var missing []string
	for _, t := range ask {
		if !n.traits[t] {
			missing = append(missing, string(t))
		}
	}
	if len(missing) > 0 {
		return fault.New(fault.Invalid, "No such trait(s): %s.", strings.Join(missing, ", "))
	}
	return nil
}

// clear removes all names, because another process may have deleted some.
func (n *Names) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.classes)
	clear(n.traits)
}
