package treeplan

import (
	"maps"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

type inv = map[resource.Class]resource.Inventory

// stock returns inventories from pairs of class and total.
func stock(pairs ...any) inv {
	out := inv{}
	for i := 0; i < len(pairs); i += 2 {
		out[resource.Class(pairs[i].(string))] = resource.Whole(pairs[i+1].(int))
	}
	return out
}

func traits(names ...resource.Trait) []resource.Trait { return names }

// tree returns a tree with a root h and children.
func tree(root inv, children ...provider.Provider) provider.Tree {
	t := provider.Tree{Providers: []provider.Provider{{ID: "H", Name: "h", Root: "H", Generation: 3, Inventories: root}}}
	for _, c := range children {
		c.Parent, c.Root = "H", "H"
		t.Providers = append(t.Providers, c)
	}
	return t
}

// pf returns a PCI provider at a bus, with generation 7; its id is the bus.
func pf(bus string, i inv, extra ...resource.Trait) provider.Provider {
	name := "h_0000:" + bus + ":00.0"
	return provider.Provider{ID: provider.ID(bus), Name: name, Generation: 7, Inventories: i,
		Traits: unique(append(extra, Managed))}
}

// uses returns usages from groups of provider, consumer, class and amount.
func uses(t ...any) Uses {
	out := Uses{}
	for i := 0; i < len(t); i += 4 {
		id, consumer := provider.ID(t[i].(string)), resource.ConsumerID(t[i+1].(string))
		if out[id] == nil {
			out[id] = map[resource.ConsumerID]resource.Amounts{}
		}
		out[id][consumer] = resource.Amounts{resource.Class(t[i+2].(string)): t[i+3].(int)}
	}
	return out
}

var host = stock("VCPU", 8, "MEMORY_MB", 1024, "DISK_GB", 100)

// with returns an inventory with one changed record.
func with(i inv, class resource.Class, change func(*resource.Inventory)) inv {
	out := maps.Clone(i)
	record := out[class]
	change(&record)
	out[class] = record
	return out
}
