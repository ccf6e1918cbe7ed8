package liveindex

import (
	"context"
	"slices"
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
	removed uint64 // how often names were removed: one that was read before may not exist any more
}

// NewNames returns an empty cache of the names in a store.
func NewNames(s Store) *Names {
	return &Names{store: s, classes: map[resource.Class]bool{}, traits: map[resource.Trait]bool{}}
}

// Forget removes names from the cache. Call it when they have been, or may have been, deleted.
func (n *Names) Forget(class resource.Class, trait resource.Trait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removed++
	delete(n.classes, class)
	delete(n.traits, trait)
}

// keep adds names that were read when removed had this value, unless some were removed since.
func (n *Names) keep(removed uint64, classes []resource.Class, traits []resource.Trait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.removed != removed {
		return
	}
	for _, name := range classes {
		n.classes[name] = true
	}
	for _, name := range traits {
		n.traits[name] = true
	}
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
	known, removed := n.classes[name], n.removed
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
	n.keep(removed, []resource.Class{name}, nil)
	return nil
}

func (n *Names) checkTraits(ctx context.Context, traits []resource.Trait) error {
	var ask []resource.Trait
	n.mu.RLock()
	removed := n.removed
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
	names := make([]resource.Trait, len(found))
	for i, t := range found {
		names[i] = t.Name
	}
	n.keep(removed, nil, names)
	var missing []string
	for _, t := range ask {
		if !slices.Contains(names, t) {
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
	n.removed++
	clear(n.classes)
	clear(n.traits)
}
