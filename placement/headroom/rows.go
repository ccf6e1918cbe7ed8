package headroom

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// rows are the providers of a cloud.
type rows struct {
	byRoot map[provider.ID][]*index.Row
	total  resource.Amounts        // of the request
	single map[resource.Class]bool // classes of which providers can be merged
	bare   bool                    // a group requests no resources, which a provider without inventories can serve
	named  map[provider.ID]bool    // providers whose trees groups name
}

// newRows returns the rows for a request.
func newRows(all []index.Row, ask resource.Ask) rows {
	r := rows{byRoot: map[provider.ID][]*index.Row{}, single: singles(ask), total: ask.Total(),
		named: map[provider.ID]bool{}}
	for _, g := range ask.Groups {
		r.named[g.InTree] = true
	}
	r.bare = slices.ContainsFunc(ask.Groups, func(g resource.Group) bool { return len(g.Resources) == 0 })
	size := map[provider.ID]int{}
	for i := range all {
		size[all[i].Root]++
	}
	for i := range all {
		root := all[i].Root
		if r.byRoot[root] == nil {
			r.byRoot[root] = make([]*index.Row, 0, size[root])
		}
		r.byRoot[root] = append(r.byRoot[root], &all[i])
	}
	return r
}

// Traits returns the traits that a request names.
func Traits(ask resource.Ask) []resource.Trait {
	list := slices.Concat(ask.RootRequired, ask.RootForbidden)
	for _, g := range ask.Groups {
		list = append(slices.Concat(list, slices.Concat(g.Required...)), g.Forbidden...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// singles returns the classes of which each group that requests some requests one unit and nothing else from the same
// provider, and which decides nothing but that unit.
func singles(ask resource.Ask) map[resource.Class]bool {
	single, kinds := map[resource.Class]bool{}, map[resource.Class]map[bool]bool{}
	for class := range ask.Total() {
		single[class] = ask.GroupPolicy != resource.PolicyIsolate
		kinds[class] = map[bool]bool{}
	}
	for _, g := range ask.Groups {
		together := slices.ContainsFunc(ask.SameSubtree, func(set []string) bool { return slices.Contains(set, g.Suffix) })
		for class, n := range g.Resources {
			kinds[class][g.Suffix == ""] = true
			if n != 1 || together || g.Suffix != "" && len(g.Resources) > 1 || len(kinds[class]) > 1 {
				single[class] = false
			}
		}
	}
	return single
}

// plain returns a row for each provider of the trees that use selects.
func (r rows) plain(use func(root provider.ID) bool) (all []index.Row) {
	for root, tree := range r.byRoot {
		if use(root) {
			for _, row := range tree {
				all = append(all, *row)
			}
		}
	}
	return all
}

// merged returns the rows of trees with equal devices as one row, which offers what they have left together. A request
// for one unit of a class is served by it if and only if one of the devices serves it. Providers that can serve no
// group are left out. With empty nothing is used.
func (r rows) merged(use func(root provider.ID) bool, empty bool) []index.Row {
	all := make([]index.Row, 0, 2*len(r.byRoot)) // most trees have a root and one kind of devices
	needed, parents, first := map[provider.ID]bool{}, map[provider.ID]bool{}, map[string]int{}
	for root, tree := range r.byRoot {
		if !use(root) {
			continue
		}
		clear(needed)
		clear(parents)
		clear(first)
		r.need(needed, tree)
		for _, p := range tree {
			if needed[p.ID] {
				parents[p.Parent] = true
			}
		}
		for _, p := range tree {
			if !needed[p.ID] {
				continue
			}
			row := *p
			if empty {
				row.Used = nil
			}
			class, free := r.device(&row)
			if class == "" || p.Parent == "" || parents[p.ID] {
				all = append(all, row)
				continue
			}
			key := keyOf(&row, class)
			at, known := first[key]
			if known {
				all[at].Inventories[class] = resource.Whole(all[at].Inventories[class].Total + free)
				continue
			}
			first[key] = len(all)
			row.Used, row.Inventories = nil, map[resource.Class]resource.Inventory{class: resource.Whole(free)}
			all = append(all, row)
		}
	}
	return all
}

// need adds the providers of a tree that decide something: those that have a class of the request or are named by it,
// those in aggregates, with which providers can share, and those above them.
func (r rows) need(needed map[provider.ID]bool, tree []*index.Row) {
	for _, p := range tree {
		if p.Parent == "" || r.bare || r.named[p.ID] || len(p.Inventories) > 0 || len(p.Aggregates) > 0 {
			needed[p.ID] = true
		}
	}
	for more := true; more; {
		more = false
		for _, p := range tree {
			if needed[p.ID] && p.Parent != "" && !needed[p.Parent] {
				needed[p.Parent], more = true, true
			}
		}
	}
}

// device returns the only class of a row that can be merged, and what the row has left of it.
func (r rows) device(row *index.Row) (class resource.Class, free int) {
	if len(row.Inventories) != 1 || row.HasTrait(index.Sharing) {
		return "", 0
	}
	for class, inv := range row.Inventories {
		free = inv.Capacity() - row.Used[class]
		if r.single[class] && inv.Shape(1) && free > 0 && inv.MaxUnit >= min(free, r.total[class]) {
			return class, free
		}
	}
	return "", 0
}

// keyOf returns what the rows have in common that are merged.
func keyOf(row *index.Row, class resource.Class) string {
	key := string(row.Parent) + " " + string(class)
	for _, t := range row.Traits {
		key += " " + string(t)
	}
	for _, a := range row.Aggregates {
		key += " in " + string(a)
	}
	return key
}
