// Package provider defines resource providers and their trees: the resources of a host, a NUMA node or a device.
package provider

import (
	"slices"
	"strings"

	"github.com/openberth/berth/resource"
)

// ID is the UUID of a resource provider.
type ID = resource.ProviderID

// Provider is one resource provider with its inventories, traits and aggregates.
type Provider struct {
	ID          ID
	Name        string
	Parent      ID  // empty for a root
	Root        ID  // its own ID for a root
	Generation  int // raised by Placement at each change of inventories, traits, aggregates or allocations put
	Inventories map[resource.Class]resource.Inventory
	Traits      []resource.Trait       // sorted
	Aggregates  []resource.AggregateID // sorted
}

// HasTrait reports whether the provider has this trait.
func (p Provider) HasTrait(t resource.Trait) bool { return slices.Contains(p.Traits, t) }

// Tree is the providers of one root, parents before their children, siblings by name.
type Tree struct {
	Providers []Provider
}

// Root returns the provider without a parent; ok is false for an empty tree.
func (t Tree) Root() (p Provider, ok bool) {
	for _, p := range t.Providers {
		if p.Parent == "" {
			return p, true
		}
	}
	return Provider{}, false
}

// ByID returns a provider of the tree by its ID.
func (t Tree) ByID(id ID) (Provider, bool) {
	i := slices.IndexFunc(t.Providers, func(p Provider) bool { return p.ID == id })
	if i < 0 {
		return Provider{}, false
	}
	return t.Providers[i], true
}

// ByName returns a provider of the tree by its name, which is unique in Placement.
func (t Tree) ByName(name string) (Provider, bool) {
	i := slices.IndexFunc(t.Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return t.Providers[i], true
}

// Children returns the direct children of id, by name.
func (t Tree) Children(id ID) []Provider {
	var out []Provider
	for _, p := range t.Providers {
		if p.Parent == id && id != "" {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Sorted returns the tree in its canonical order. A provider whose parent is not in the tree is at the end.
func (t Tree) Sorted() Tree {
	out := make([]Provider, 0, len(t.Providers))
	var walk func(p Provider)
	walk = func(p Provider) {
		out = append(out, p)
		for _, c := range t.Children(p.ID) {
			walk(c)
		}
	}
	for _, p := range t.Providers {
		if _, inside := t.ByID(p.Parent); !inside {
			walk(p)
		}
	}
	return Tree{Providers: out}
}

// Used is the usage of each class on each provider.
type Used map[ID]resource.Amounts
