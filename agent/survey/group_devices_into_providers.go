package survey

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// groups groups the offered and the held devices by provider, and refuses groups that one provider cannot represent.
func (f Facts) groups(found []match) (list []group, wrong []error) {
	byName := map[string]*group{}
	at := func(name string) *group {
		if byName[name] == nil {
			byName[name] = &group{name: name}
		}
		return byName[name]
	}
	offered := map[pci.Address]match{}
	for _, m := range found {
		offered[m.offer.Device.Address] = m
		g := at(m.offer.Device.Holder().ProviderName(f.Host))
		if m.offer.Device.Parent != nil {
			g.vfs = append(g.vfs, m)
		} else {
			g.self = &m
		}
	}
	for _, c := range f.Held {
		m, there := offered[c.Device.Address]
		if c.Provider == "" && f.changed(c) {
			continue // Placement never counted it: other consumers could claim its inventory
		}
		if !there || !m.reported() {
			g := at(f.nameOf(c))
			g.heldOnly = append(g.heldOnly, c)
			continue
		}
		if err := f.checkClass(m, c); err != nil {
			wrong = append(wrong, err)
		}
		g := at(m.offer.Device.Holder().ProviderName(f.Host))
		g.heldOffered = append(g.heldOffered, c)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if err := byName[name].check(); err != nil {
			wrong = append(wrong, err)
		}
		list = append(list, *byName[name])
	}
	return list, wrong
}

// provider returns the desired provider of a group, or nil when it counts no device.
func (f Facts) provider(g group) (*provider.Provider, []Note) {
	counted := g.counted()
	if len(counted) == 0 && len(g.heldOnly) == 0 {
		return nil, nil
	}
	p := &provider.Provider{ID: f.id(g.name), Name: g.name, Parent: f.parent(g), Root: f.Root,
		Inventories: map[resource.Class]resource.Inventory{}}
	old, _ := f.Actual.ByID(p.ID)
	if len(counted) > 0 {
		p.Traits = counted[0].offer.Traits
		p.Inventories[counted[0].offer.ResourceClass] = resource.Whole(g.total(counted))
	} else {
		p.Traits = old.Traits // no rule has traits any more: the present ones stay
	}
	p.Traits = union(p.Traits, ManagedPCI, OwnerNova)
	notes := f.keepHeld(p, g, old)
	g.reserveUsed(p)
	return p, notes
}

// keepHeld adds the devices that are held but no longer offered, so that their usage stays: the total of a class is
// the number of offered and held devices. A claim without a class gets Placement's.
func (f Facts) keepHeld(p *provider.Provider, g group, old provider.Provider) []Note {
	var notes []Note
	for _, c := range g.heldOnly {
		class := c.ResourceClass
		if class == "" && len(old.Inventories) == 1 {
			class = slices.Collect(maps.Keys(old.Inventories))[0]
		}
		what := string(class)
		if class == "" {
			what = "all its inventories"
			for class, inv := range old.Inventories {
				if _, set := p.Inventories[class]; !set {
					p.Inventories[class] = inv
				}
			}
		} else {
			p.Inventories[class] = resource.Whole(p.Inventories[class].Total + c.Amount())
		}
		if len(g.counted()) == 0 {
			p.Traits = union(p.Traits, c.Traits...)
		}
		if !f.changed(c) { // changed claims have their own note
			notes = append(notes, Note{c.Device.Address.String(), fmt.Sprintf("is held by server %s, though %s; "+
				"%s keeps %s until the server is gone", c.Holder, f.missing(c), p.Name, what)})
		}
	}
	return notes
}

// reserveUsed reserves a device for one-time use that has been used. Only cleaning it lowers the reserved amount.
func (g group) reserveUsed(p *provider.Provider) {
	if g.self == nil || !g.self.offer.Spent {
		return
	}
	inv := p.Inventories[g.self.offer.ResourceClass]
	inv.Reserved = inv.Total
	p.Inventories[g.self.offer.ResourceClass] = inv
}
