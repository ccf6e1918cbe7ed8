package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ProviderCmd groups the commands on resource providers.
type ProviderCmd struct {
	List ProviderListCmd `cmd:"" help:"List resource providers."`
	Show ProviderShowCmd `cmd:"" help:"Show one provider with its inventories, usages, traits, aggregates and allocations."`
}

// ProviderListCmd lists providers.
type ProviderListCmd struct {
	Query []string `arg:"" optional:"" help:"Filters of the API as key=value, such as resources=VCPU:1 or in_tree=UUID."`
	LongOutput
}

type providerRow struct {
	UUID       provider.ID `json:"uuid"`
	Name       string      `json:"name"`
	Parent     provider.ID `json:"parent_provider_uuid,omitempty"`
	Root       provider.ID `json:"root_provider_uuid"`
	Generation int         `json:"generation"`
}

// Validate checks the query.
func (c *ProviderListCmd) Validate() error {
	_, err := queryOf(c.Query)
	return err
}

// Run prints the providers.
func (c *ProviderListCmd) Run(g *Globals) error {
	query, err := queryOf(c.Query)
	if err != nil {
		return err
	}
	ctx, cancel := g.context()
	defer cancel()
	list, err := g.placement().Providers(ctx, query)
	if err != nil {
		return withSimilarNames(ctx, g, query, err)
	}
	known := namesOf(list)
	if len(query) > 0 && !c.Long && g.Output != "json" { // the list has not all parents and roots
		known = g.providerNames(ctx, nil)
	}
	out := make([]providerRow, 0, len(list))
	for _, p := range list {
		out = append(out, providerRow{p.ID, p.Name, p.Parent, p.Root, p.Generation})
	}
	if c.Long {
		known = names{}
	}
	return printList(g, out, "Name", c.Long, []column[providerRow]{
		{name: "UUID", long: true, text: func(p providerRow) string { return string(p.UUID) }},
		{name: "Name", text: func(p providerRow) string { return p.Name }},
		{name: "Generation", text: func(p providerRow) string { return strconv.Itoa(p.Generation) }},
		{name: "Root", text: func(p providerRow) string { return known.of(string(p.Root)) }},
		{name: "Parent", text: func(p providerRow) string { return dash(known.of(string(p.Parent))) }},
	})
}

// providerDoc is a provider with what it has.
type providerDoc struct {
	providerRow
	Inventories map[resource.Class]placement.InventoryDoc `json:"inventories"`
	Usages      resource.Amounts                          `json:"usages"`
	Traits      []resource.Trait                          `json:"traits"`
	Aggregates  []resource.AggregateID                    `json:"aggregates"`
}

func docOf(p provider.Provider, used resource.Amounts) providerDoc {
	doc := providerDoc{providerRow: providerRow{p.ID, p.Name, p.Parent, p.Root, p.Generation},
		Inventories: map[resource.Class]placement.InventoryDoc{},
		Usages:      used, Traits: p.Traits, Aggregates: p.Aggregates}
	for class, inv := range p.Inventories {
		doc.Inventories[class] = placement.NewInventoryDoc(inv)
	}
	return doc
}

// findProvider finds a provider by name or UUID.
func findProvider(ctx context.Context, client *placement.Client, name string) (provider.Provider, error) {
	key := "name"
	if _, err := uuid.Parse(name); err == nil {
		key = "uuid"
	}
	list, err := client.Providers(ctx, url.Values{key: {name}})
	if err != nil {
		return provider.Provider{}, err
	}
	if len(list) > 0 {
		return list[0], nil
	}
	all, err := client.Providers(ctx, nil)
	if err != nil {
		return provider.Provider{}, err
	}
	var known []string
	for _, p := range all {
		known = append(known, p.Name)
	}
	return provider.Provider{}, unknownName("resource provider", name, known, "berth provider list")
}

// ProviderShowCmd shows one provider.
type ProviderShowCmd struct {
	Provider string `arg:"" help:"Name or UUID."`
}

// Run prints the provider.
func (c *ProviderShowCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	client := g.placement()
	found, err := findProvider(ctx, client, c.Provider)
	if err != nil {
		return err
	}
	tree, err := client.Tree(ctx, found.ID)
	if err != nil {
		return err
	}
	p, ok := tree.ByID(found.ID)
	if !ok {
		return fault.New(fault.Conflict, "the provider %s was deleted while it was read", found.ID)
	}
	used, err := client.Usages(ctx, p.ID)
	if err != nil {
		return err
	}
	held, err := client.ProviderAllocations(ctx, p.ID)
	if err != nil {
		return err
	}
	doc := struct {
		providerDoc
		Allocations map[resource.ConsumerID]resource.Amounts `json:"allocations"`
	}{docOf(p, used), held}
	known := namesOf(tree.Providers)
	rows := pairs("uuid", string(p.ID), "name", p.Name, "generation", strconv.Itoa(p.Generation), "root",
		known.both(string(p.Root)), "parent", dash(known.both(string(p.Parent))), "traits",
		dash(strings.Join(strs(p.Traits), " ")), "aggregates",
		dash(strings.Join(strs(p.Aggregates), " ")))
	for _, class := range inventoryOrder(p) {
		i := p.Inventories[class]
		rows = append(rows, []string{"inventory " + string(class),
			fmt.Sprintf("%d of %d used (total %d, reserved %d, min %d, max %d, step %d, ratio %g)",
				used[class], i.Capacity(), i.Total, i.Reserved, i.MinUnit, i.MaxUnit, i.StepSize, i.AllocationRatio)})
	}
	var holders names
	if g.Output != "json" {
		holders = g.consumerNames(ctx, strs(sortedKeys(held)))
	}
	for _, consumer := range sortedKeys(held) {
		rows = append(rows, []string{"held by " + holders.both(string(consumer)), held[consumer].String()})
	}
	return g.print(doc, []string{"Field", "Value"}, rows)
}

func inventoryOrder(p provider.Provider) []resource.Class { return sortedKeys(p.Inventories) }
