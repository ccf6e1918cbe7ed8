package survey

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// group is what one device provider counts: a plain device, a PF, or the VFs of a PF.
type group struct {
	name        string
	self        *match         // the plain device or PF, if it is offered
	vfs         []match        // by address
	heldOnly    []device.Claim // held, but no longer offered for Placement to count
	heldOffered []device.Claim // held and offered
}

// checkRules refuses rules that are invalid on any host, or on this one.
func (f Facts) checkRules() (wrong []error) {
	for _, r := range f.Rules {
		// Nova refuses to start with devname and report_in_placement.
		if f.Report && r.Devname != "" {
			wrong = append(wrong, invalid("%s offers devices by devname %q, which [pci] report_in_placement does not allow; "+
				"write their address instead", where(r), r.Devname))
		}
		if !f.Report && r.Tags.OneTimeUse == pci.Yes {
			wrong = append(wrong, invalid("%s sets one_time_use, which needs [pci] report_in_placement; switch that on, or "+
				"remove one_time_use", where(r)))
		}
		if f.NoLive != "" && r.Tags.LiveMigratable == pci.Yes {
			wrong = append(wrong, invalid("%s sets live_migratable, but %s; remove it", where(r), f.NoLive))
		}
		if sentence := (pci.Rules{r}).WhyNot(f.Devices); sentence != "" {
			wrong = append(wrong, invalid("%s", sentence))
		}
	}
	return wrong
}

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

// checkClass refuses another class for a device that is held, as in its claim or in Placement: as in Nova, changing
// the class of an allocated device would remove its allocations.
func (f Facts) checkClass(m match, c device.Claim) error {
	class := m.offer.Class
	was := c.Class
	if old, there := f.Actual.ByID(c.Provider); there && c.Provider != "" && len(old.Inventories) > 0 {
		if _, same := old.Inventories[class]; !same {
			was = slices.Sorted(maps.Keys(old.Inventories))[0]
		}
	}
	if was == "" || was == class {
		return nil
	}
	return invalid("%s has class %s, but server %s holds the device as %s; give it that class until the server is gone", m,
		class, c.Holder, was)
}

// nameOf returns the name of the provider that counts a held device.
func (f Facts) nameOf(c device.Claim) string {
	if p, there := f.Actual.ByID(c.Provider); there && c.Provider != "" {
		return p.Name
	}
	if c.Name != "" {
		return c.Name
	}
	return c.Device.Holder().ProviderName(f.Host)
}

// check refuses a group that one provider cannot represent.
func (g group) check() error {
	if err := g.checkFamily(); err != nil {
		return err
	}
	counted := g.counted()
	for _, m := range counted {
		if m.offer.Device.Parent != nil && m.rule.Tags.OneTimeUse == pci.Yes {
			return invalid("%s sets one_time_use of a VF; only a plain device or a PF can be used once; remove one_time_use",
				m)
		}
		first := counted[0]
		// One provider counts all VFs of a PF, so they must have the same traits and the same class, as in Nova.
		if m.offer.Class != first.offer.Class {
			return invalid("%s has class %s and %s has class %s, but VFs of one PF need one class; give both rules the same "+
				"resource_class",
				m, m.offer.Class, first, first.offer.Class)
		}
		if !slices.Equal(m.offer.Traits, first.offer.Traits) {
			return invalid("%s has the traits [%s] and %s has [%s], but VFs of one PF need the same traits; give both rules "+
				"the same",
				m, text(m.offer.Traits), first, text(first.offer.Traits))
		}
	}
	return nil
}

// checkFamily refuses a PF beside its VFs, which Nova does not support with report_in_placement. It is allowed when
// neither is reported because both are for network ports.
func (g group) checkFamily() error {
	if g.self != nil && len(g.vfs) > 0 && len(g.counted()) > 0 {
		names := make([]string, len(g.vfs))
		for i, m := range g.vfs {
			names[i] = m.offer.Device.Address.String()
		}
		return invalid("the PF %s and of its VFs %s (%s) are both offered, but only one kind can be; %s",
			g.self, joinFew(names), where(g.vfs[0].rule), g.keepAdvice())
	}
	// A device that was switched from PF to VFs, or back, while a guest holds it.
	for _, c := range g.heldOnly {
		own := c.Device.Address
		switch {
		case len(g.vfs) > 0 && g.vfs[0].reported() && own == g.vfs[0].offer.Device.Holder():
			return invalid("%s is offered, but server %s holds its PF %s; offer the PF and not its VFs until the server is gone",
				g.vfs[0], c.Holder, own)
		case g.self != nil && g.self.reported() && own != g.self.offer.Device.Address:
			return invalid("the PF %s is offered, but server %s holds its VF %s; offer the VFs and not the PF until the "+
				"server is gone",
				g.self, c.Holder, own)
		}
	}
	return nil
}

// keepAdvice returns which of PF and VFs must stay offered: those that are held.
func (g group) keepAdvice() string {
	const how = "narrow the rules, by product_id or by the functions in the address"
	if len(g.heldOffered) == 0 {
		return how
	}
	names := make([]string, len(g.heldOffered))
	for i, c := range g.heldOffered {
		names[i] = c.Device.Address.String()
	}
	if g.heldOffered[0].Device.Type == pci.Virtual {
		return fmt.Sprintf("keep the VFs, of which %s is held, and leave out the PF: %s", joinFew(names), how)
	}
	return fmt.Sprintf("keep the PF, which server %s holds, and leave out its VFs: %s", g.heldOffered[0].Holder, how)
}

// counted lists the offered devices that the provider counts.
func (g group) counted() []match {
	var list []match
	if g.self != nil {
		list = append(list, *g.self)
	}
	list = append(list, g.vfs...)
	return slices.DeleteFunc(list, func(m match) bool { return !m.reported() })
}

// provider returns the desired provider of a group, or nil when it counts no device.
func (f Facts) provider(g group) (*provider.Provider, []Note) {
	counted := g.counted()
	if len(counted) == 0 && len(g.heldOnly) == 0 {
		return nil, nil
	}
	p := &provider.Provider{ID: f.id(g.name), Name: g.name, Parent: f.Root, Root: f.Root,
		Inventories: map[resource.Class]resource.Inventory{}}
	old, _ := f.Actual.ByID(p.ID)
	if len(counted) > 0 {
		p.Traits = counted[0].offer.Traits
		p.Inventories[counted[0].offer.Class] = resource.Whole(len(counted))
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
		class := c.Class
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
			p.Inventories[class] = resource.Whole(p.Inventories[class].Total + 1)
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
	inv := p.Inventories[g.self.offer.Class]
	inv.Reserved = inv.Total
	p.Inventories[g.self.offer.Class] = inv
}

func text(traits []resource.Trait) string {
	words := make([]string, len(traits))
	for i, t := range traits {
		words[i] = string(t)
	}
	return strings.Join(words, " ")
}

// joinFew joins texts: the first four, and the number of further ones.
func joinFew(words []string) string {
	const most = 4
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "survey.Desired", format, args...)
}
