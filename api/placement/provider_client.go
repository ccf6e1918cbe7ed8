package placement

import (
	"context"
	"net/url"
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func providerPath(id provider.ID, rest string) string {
	return "/resource_providers/" + url.PathEscape(string(id)) + rest
}

// Tree reads all providers of the tree that contains id, with inventories, traits and aggregates. It returns
// fault.NotFound if the provider does not exist. The generations are those of the first read, so a write after a
// concurrent change is refused.
func (c *Client) Tree(ctx context.Context, id provider.ID) (provider.Tree, error) {
	return c.tree(ctx, id, c.fill)
}

// tree reads the providers of a tree; fill adds what their list does not include.
func (c *Client) tree(ctx context.Context, id provider.ID, fill func(context.Context, *provider.Provider) error) (
	provider.Tree, error) {
	list, err := c.Providers(ctx, url.Values{"in_tree": {string(id)}})
	if err != nil {
		return provider.Tree{}, fault.Wrap("", err)
	}
	if len(list) == 0 {
		return provider.Tree{}, fault.New(fault.NotFound, "No resource provider with uuid %s found", id)
	}
	for i := range list {
		if err := fill(ctx, &list[i]); err != nil {
			return provider.Tree{}, fault.Wrap("", err)
		}
	}
	return provider.Tree{Providers: list}.Sorted(), nil
}

// fill reads the inventories, traits and aggregates of a provider, which the list of providers does not include.
func (c *Client) fill(ctx context.Context, p *provider.Provider) error {
	var inventories InventoriesDoc
	if _, err := c.REST.Do(ctx, "GET", providerPath(p.ID, "/inventories"), nil, &inventories); err != nil {
		return err
	}
	p.Inventories = make(map[resource.Class]resource.Inventory, len(inventories.Inventories))
	for class, doc := range inventories.Inventories {
		p.Inventories[class] = doc.Inventory()
	}
	var traits ProviderTraitsDoc
	if _, err := c.REST.Do(ctx, "GET", providerPath(p.ID, "/traits"), nil, &traits); err != nil {
		return err
	}
	p.Traits = slices.Sorted(slices.Values(traits.Traits))
	var aggregates AggregatesDoc
	if _, err := c.REST.Do(ctx, "GET", providerPath(p.ID, "/aggregates"), nil, &aggregates); err != nil {
		return err
	}
	p.Aggregates = slices.Sorted(slices.Values(aggregates.Aggregates))
	return nil
}

// Providers returns the providers that a query such as in_tree=<uuid> selects: id, name, parent, root and generation.
func (c *Client) Providers(ctx context.Context, query url.Values) ([]provider.Provider, error) {
	path := "/resource_providers"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var doc ProvidersDoc
	if _, err := c.REST.Do(ctx, "GET", path, nil, &doc); err != nil {
		return nil, fault.Wrap("", err)
	}
	list := make([]provider.Provider, len(doc.Providers))
	for i, d := range doc.Providers {
		list[i] = d.Provider()
	}
	return list, nil
}

// ProviderByName returns the provider of this name, without its inventories; fault.NotFound if there is none.
func (c *Client) ProviderByName(ctx context.Context, name string) (provider.Provider, error) {
	list, err := c.Providers(ctx, url.Values{"name": {name}})
	if err != nil {
		return provider.Provider{}, err
	}
	if len(list) == 0 {
		return provider.Provider{}, fault.New(fault.NotFound, "no resource provider is called %q", name)
	}
	return list[0], nil
}

// CreateProvider creates a provider, a root if parent is empty. It returns fault.Conflict if the name or the UUID is in
// use.
func (c *Client) CreateProvider(ctx context.Context, id provider.ID, name string,
	parent provider.ID) (provider.Provider, error) {
	body := NewProvider{Name: name, UUID: id}
	if parent != "" {
		body.Parent = &parent
	}
	var doc ProviderDoc
	if _, err := c.REST.Do(ctx, "POST", "/resource_providers", body, &doc); err != nil {
		return provider.Provider{}, fault.Wrap("", err)
	}
	return doc.Provider(), nil
}

// PutProvider changes the name and the parent of a provider. It returns fault.Conflict if another provider has the
// name, and fault.Invalid if the parent does not exist.
func (c *Client) PutProvider(ctx context.Context, id provider.ID, name string, parent provider.ID) (provider.Provider,
	error) {
	body := map[string]any{"name": name, "parent_provider_uuid": parent}
	var doc ProviderDoc
	if _, err := c.REST.Do(ctx, "PUT", providerPath(id, ""), body, &doc); err != nil {
		return provider.Provider{}, fault.Wrap("", err)
	}
	return doc.Provider(), nil
}

// DeleteProvider deletes a provider that has neither children nor allocations.
func (c *Client) DeleteProvider(ctx context.Context, id provider.ID) error {
	_, err := c.REST.Do(ctx, "DELETE", providerPath(id, ""), nil, nil)
	return fault.Wrap("", err)
}

// Inventories reads the inventories of a provider and its generation; fault.NotFound if the provider does not exist.
func (c *Client) Inventories(ctx context.Context, id provider.ID) (InventorySet, error) {
	var doc InventoriesDoc
	if _, err := c.REST.Do(ctx, "GET", providerPath(id, "/inventories"), nil, &doc); err != nil {
		return InventorySet{}, fault.Wrap("", err)
	}
	inventories := make(map[resource.Class]resource.Inventory, len(doc.Inventories))
	for class, inv := range doc.Inventories {
		inventories[class] = inv.Inventory()
	}
	return InventorySet{Generation: doc.Generation, Inventories: inventories}, nil
}

// PutInventories replaces all inventories of a provider and returns its new generation.
func (c *Client) PutInventories(ctx context.Context, id provider.ID, generation int,
	inv map[resource.Class]resource.Inventory) (int, error) {
	var doc InventoriesDoc
	_, err := c.REST.Do(ctx, "PUT", providerPath(id, "/inventories"), inventoriesDoc(generation, inv), &doc)
	return doc.Generation, fault.Wrap("", err)
}

// PutTraits replaces all traits of a provider and returns its new generation.
func (c *Client) PutTraits(ctx context.Context, id provider.ID, generation int, traits []resource.Trait) (int, error) {
	body := ProviderTraitsDoc{Generation: generation, Traits: append([]resource.Trait{}, traits...)}
	var doc ProviderTraitsDoc
	_, err := c.REST.Do(ctx, "PUT", providerPath(id, "/traits"), body, &doc)
	return doc.Generation, fault.Wrap("", err)
}

// EnsureClass creates a CUSTOM_ resource class if it does not exist.
func (c *Client) EnsureClass(ctx context.Context, class resource.Class) error {
	_, err := c.REST.Do(ctx, "PUT", "/resource_classes/"+url.PathEscape(string(class)), nil, nil)
	return fault.Wrap("", err)
}

// EnsureTrait creates a CUSTOM_ trait if it does not exist.
func (c *Client) EnsureTrait(ctx context.Context, trait resource.Trait) error {
	_, err := c.REST.Do(ctx, "PUT", "/traits/"+url.PathEscape(string(trait)), nil, nil)
	return fault.Wrap("", err)
}

// Aggregates returns the aggregates of a provider and its generation; fault.NotFound.
func (c *Client) Aggregates(ctx context.Context, id provider.ID) (AggregatesDoc, error) {
	var doc AggregatesDoc
	_, err := c.REST.Do(ctx, "GET", providerPath(id, "/aggregates"), nil, &doc)
	return doc, fault.Wrap("", err)
}

// PutAggregates replaces the aggregates of a provider; fault.Conflict if it has another generation.
func (c *Client) PutAggregates(ctx context.Context, id provider.ID, doc AggregatesDoc) error {
	_, err := c.REST.Do(ctx, "PUT", providerPath(id, "/aggregates"), doc, nil)
	return fault.Wrap("", err)
}

// Usages returns how much of each class in its inventory is used on a provider.
func (c *Client) Usages(ctx context.Context, id provider.ID) (resource.Amounts, error) {
	var doc UsagesDoc
	if _, err := c.REST.Do(ctx, "GET", providerPath(id, "/usages"), nil, &doc); err != nil {
		return nil, fault.Wrap("", err)
	}
	return doc.Usages, nil
}
