package placementtest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidates returns the allocation candidates for an ask. An empty list is not an error. It returns fault.Invalid if
// the ask names a class or a trait that does not exist, or has several suffixed groups and no group policy. The amounts
// of the candidates may be shared: do not modify them.
func (p *Placement) Candidates(_ context.Context, ask resource.Ask) (found placement.Candidates, err error) {
	err = p.do(Call{Op: "Candidates"}, func() error {
		if err := p.checkAsk(ask); err != nil {
			return err
		}
		found.List, found.Summaries = []placement.Candidate{}, map[provider.ID]placement.Summary{}
		for c := range candidate.Find(p.currentSnapshot(), ask, candidate.Options{BreadthFirst: true}) {
			one := placement.Candidate{Allocation: c.Allocation(), Mappings: c.Mappings()}
			found.List = append(found.List, one)
			for _, take := range c.Takes {
				p.summarise(take.Tree.Root, found.Summaries)
			}
		}
		return nil
	})
	return found, err
}

// checkAsk returns fault.Invalid for an ask that the real service rejects.
func (d *database) checkAsk(ask resource.Ask) error {
	var missing []string
	check := func(sets ...[]resource.Trait) {
		for _, trait := range slices.Concat(sets...) {
			if !d.hasTrait(trait) {
				missing = append(missing, string(trait))
			}
		}
	}
	for _, g := range ask.Groups {
		for _, class := range g.Resources.Sorted() {
			if !d.hasClass(class) {
				return refuse(fault.Invalid, "Invalid resource class in resources parameter: "+
					"No such resource class %s.", class)
			}
		}
		check(g.Required...)
		check(g.Forbidden)
	}
	if ask.Suffixed() > 1 && ask.GroupPolicy == resource.PolicyUnset {
		return refuse(fault.Invalid, "group_policy is required if more than one group has a suffix")
	}
	if check(ask.RootRequired, ask.RootForbidden); len(missing) > 0 {
		return refuse(fault.Invalid, "No such trait(s): %s.", strings.Join(missing, ", "))
	}
	return nil
}

func (d *database) hasClass(class resource.Class) bool {
	return d.classes[class] || !strings.HasPrefix(string(class), "CUSTOM_")
}

func (d *database) hasTrait(trait resource.Trait) bool {
	return d.traits[trait] || !strings.HasPrefix(string(trait), "CUSTOM_")
}

// currentSnapshot returns the snapshot of all trees, updated for those that have changed.
func (d *database) currentSnapshot() *index.Snapshot {
	for _, root := range slices.Sorted(maps.Keys(d.stale)) {
		var rows []index.Row
		for _, id := range d.trees[root] {
			rows = append(rows, index.Row{Provider: *d.providers[id], Used: d.used[id]})
		}
		d.snapshot = d.snapshot.Replace(root, rows)
	}
	clear(d.stale)
	return d.snapshot
}

// summarise adds the summaries of all providers of a tree, unless they are there.
func (d *database) summarise(root provider.ID, out map[provider.ID]placement.Summary) {
	if _, done := out[root]; done {
		return
	}
	for _, id := range d.trees[root] {
		p := d.providers[id]
		s := placement.Summary{Root: p.Root, Parent: p.Parent, Traits: append([]resource.Trait{}, p.Traits...),
			Resources: make(map[resource.Class]placement.Capacity, len(p.Inventories))}
		for class, inv := range p.Inventories {
			s.Resources[class] = placement.Capacity{Capacity: inv.Capacity(), Used: d.used[id][class]}
		}
		out[id] = s
	}
}
