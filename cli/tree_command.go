package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TreeCmd prints provider trees.
type TreeCmd struct {
	Host string `arg:"" optional:"" help:"Name of the host, or name or UUID of a provider in its tree. Default: all trees."`
	LongOutput
}

// treeNode is a provider in a tree.
type treeNode struct {
	providerRow
	Host        string                                    `json:"host"`
	Kind        hosttree.Kind                             `json:"kind"`
	Inventories map[resource.Class]placement.InventoryDoc `json:"inventories"`
	Usages      resource.Amounts                          `json:"usages"`
	Traits      []resource.Trait                          `json:"traits"`
	Holders     []treeHolder                              `json:"holders"` // by id
}

// treeHolder is a consumer with what it holds of a provider.
type treeHolder struct {
	Consumer  resource.ConsumerID `json:"consumer"`
	Server    string              `json:"server,omitempty"` // name; empty: compute does not know the consumer
	Project   string              `json:"project,omitempty"`
	Flavor    string              `json:"flavor,omitempty"`
	Move      string              `json:"move,omitempty"` // the kind of the migration that holds it
	Resources resource.Amounts    `json:"resources"`
}

// Run prints the trees, or with JSON output each provider, parents first.
func (c *TreeCmd) Run(g *Globals) error {
	ctx, cancel := fleetContext(g)
	defer cancel()
	host, err := c.root(ctx, g)
	if err != nil {
		return err
	}
	o := read.Options{Host: host, Traits: true, Without: []fleet.Part{fleet.Hypervisors, fleet.Services, fleet.Ports,
		fleet.Agents, fleet.Reported}}
	if _, err := read.Negotiate(ctx, g.compute()); err != nil {
		fmt.Fprintf(g.stderr(), "warning: holders are shown by id: %v\n", err)
		o.Without = append(o.Without, fleet.Servers, fleet.Migrations)
	}
	v, err := readFleet(ctx, g, o)
	if err != nil {
		return err
	}
	named := !slices.Contains(o.Without, fleet.Servers) && !v.Missing(fleet.Servers, fleet.Migrations)
	nodes := []treeNode{}
	for _, tree := range treesOf(v) {
		if g.Output == "json" {
			for _, p := range tree.Sorted().Providers {
				nodes = append(nodes, nodeOf(v, v.Provider[p.ID]))
			}
			continue
		}
		if err := tree.PrintLines(g.stdout(), func(p provider.Provider) string {
			return c.line(v, nodeOf(v, v.Provider[p.ID]), named)
		}); err != nil {
			return err
		}
	}
	if g.Output == "json" {
		return g.print(nodes, nil, nil)
	}
	return nil
}

// root returns the name of the root provider of the tree that is wanted; empty for all.
func (c *TreeCmd) root(ctx context.Context, g *Globals) (string, error) {
	if c.Host == "" {
		return "", nil
	}
	p, err := findProvider(ctx, g.placement(), c.Host)
	if err != nil || p.Parent == "" {
		return p.Name, err
	}
	tree, err := g.placement().Providers(ctx, url.Values{"in_tree": {string(p.Root)}})
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(tree, func(one provider.Provider) bool { return one.ID == p.Root })
	if i < 0 {
		return "", fault.New(fault.Conflict, "the tree of %s was deleted while it was read", c.Host)
	}
	return tree[i].Name, nil
}

// treesOf returns the trees by the names of their roots.
func treesOf(v *fleet.View) (all []provider.Tree) {
	of := map[provider.ID]provider.Tree{}
	for _, p := range v.Providers {
		of[p.Root] = provider.Tree{Providers: append(of[p.Root].Providers, p.Provider)}
	}
	for _, name := range sortedKeys(v.Root) {
		all = append(all, of[v.Root[name].ID])
	}
	return all
}

// nodeOf returns a provider with its holders.
func nodeOf(v *fleet.View, p *fleet.Provider) treeNode {
	kind, _ := v.KindOf(p)
	n := treeNode{providerRow: providerRow{p.ID, p.Name, p.Parent, p.Root, p.Generation}, Host: v.HostOf(p), Kind: kind,
		Inventories: map[resource.Class]placement.InventoryDoc{}, Usages: resource.Amounts{}, Traits: p.Traits,
		Holders: []treeHolder{}}
	for class, inventory := range p.Inventories {
		n.Inventories[class], n.Usages[class] = placement.NewInventoryDoc(inventory), 0
	}
	for _, consumer := range sortedKeys(p.Held) {
		h := v.Holder(consumer, 0)
		n.Holders = append(n.Holders, treeHolder{h.Consumer, h.Server, h.Project, h.Flavor, h.Move, p.Held[consumer]})
		for class, amount := range p.Held[consumer] {
			n.Usages[class] += amount
		}
	}
	return n
}

// line returns the line of a provider. Unless all is wanted, its traits and holders are shortened. Without names a
// holder is its id.
func (c *TreeCmd) line(v *fleet.View, n treeNode, named bool) string {
	traits := strs(n.Traits)
	if !c.Long {
		traits = shortTraits(traits)
	}
	p := v.Provider[n.UUID]
	line := provider.Describe(p.Provider, n.Usages, traits)
	if c.Long {
		line = string(n.UUID) + "  " + line
	}
	var holders []string
	for i, h := range n.Holders {
		if i == maxHolders && !c.Long {
			holders = append(holders, fmt.Sprintf("and %d more", len(n.Holders)-i))
			break
		}
		holders = append(holders, c.holderText(h, named))
	}
	if len(holders) > 0 {
		line += "  held by " + strings.Join(holders, ", ")
	}
	return line
}

// holderText returns a holder; with --long also its id, project, flavor and what it holds.
func (c *TreeCmd) holderText(h treeHolder, named bool) string {
	text := string(h.Consumer)
	if named {
		text = fleet.Holder{Consumer: h.Consumer, Server: h.Server, Move: h.Move}.String()
	}
	text = provider.Printable(text)
	if !c.Long {
		return text
	}
	return fmt.Sprintf("%s (%s, project %s, flavor %s: %s)", text, h.Consumer, dash(provider.Printable(h.Project)),
		dash(provider.Printable(h.Flavor)), h.Resources)
}

// fewTraits is how many traits of a provider are printed without shortening.
const fewTraits = 8

// shortTraits returns traits for a line. Of many traits, those of CPUs and of what compute can do there are counted.
func shortTraits(traits []string) (short []string) {
	if len(traits) <= fewTraits {
		return traits
	}
	counts := map[string]int{}
	for _, trait := range traits {
		switch {
		case strings.HasPrefix(trait, "HW_CPU_"):
			counts["HW_CPU_"]++
		case strings.HasPrefix(trait, "COMPUTE_"):
			counts["COMPUTE_"]++
		default:
			short = append(short, trait)
		}
	}
	for _, prefix := range sortedKeys(counts) {
		short = append(short, fmt.Sprintf("%s…×%d", prefix, counts[prefix]))
	}
	return short
}
