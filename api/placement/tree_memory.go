package placement

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/openberth/berth/provider"
)

// TreeMemory is a client that reads a provider of a tree again only if its generation has changed, so a tree that has
// not changed takes one request. Every change of inventories and traits increments the generation, and every claim. The
// name and the parent are always those of the last read. Aggregates may be old if another client changes them below
// microversion 1.19, which does not increment the generation.
//
// A provider that is deleted and created again under its id counts from 0. A read that does not find a provider forgets
// it; if both happen between two reads, the generation is most likely another one.
type TreeMemory struct {
	*Client
	mu    sync.Mutex
	known map[provider.ID]provider.Provider // as they were read last
}

// WithTreeMemory returns a client that remembers the trees that it reads.
func WithTreeMemory(c *Client) *TreeMemory {
	return &TreeMemory{Client: c, known: map[provider.ID]provider.Provider{}}
}

// Tree is Client.Tree.
func (m *TreeMemory) Tree(ctx context.Context, id provider.ID) (provider.Tree, error) {
	tree, err := m.tree(ctx, id, func(ctx context.Context, p *provider.Provider) error {
		old, known := m.recall(p.ID)
		if !known || old.Generation != p.Generation {
			return m.fill(ctx, p)
		}
		p.Inventories, p.Traits = maps.Clone(old.Inventories), slices.Clone(old.Traits)
		p.Aggregates = slices.Clone(old.Aggregates)
		return nil
	})
	if err == nil {
		m.remember(tree)
	}
	return tree, err
}

func (m *TreeMemory) recall(id provider.ID) (p provider.Provider, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, known = m.known[id]
	return p, known
}

// remember replaces what is known of a tree.
func (m *TreeMemory) remember(t provider.Tree) {
	m.mu.Lock()
	defer m.mu.Unlock()
	root, _ := t.Root()
	maps.DeleteFunc(m.known, func(_ provider.ID, p provider.Provider) bool { return p.Root == root.ID })
	for _, p := range t.Providers {
		p.Inventories, p.Traits = maps.Clone(p.Inventories), slices.Clone(p.Traits)
		p.Aggregates = slices.Clone(p.Aggregates)
		m.known[p.ID] = p
	}
}
