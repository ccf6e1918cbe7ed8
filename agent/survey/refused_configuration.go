package survey

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// invalidConfig is all errors of a configuration, in order.
type invalidConfig struct{ errs []error }

// Error returns the first error: correcting it may correct the others.
func (s *invalidConfig) Error() string { return fault.TextOf(s.errs[0]) }

// Problems lists the sentences of a fault of Desired; none for another error.
func Problems(err error) (sentences []string) {
	if s, ok := errors.AsType[*invalidConfig](err); ok {
		for _, one := range s.errs {
			sentences = append(sentences, fault.TextOf(one))
		}
	}
	return sentences
}

// checkRules refuses rules that are invalid on any host, or on this one.
func (f Facts) checkRules() (wrong []error) {
	if f.ReportNetwork && !f.Report {
		wrong = append(wrong, invalid("[berth] report_network_devices needs [pci] report_in_placement; switch that on too"))
	}
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
		if !f.Report && r.Shapes {
			wrong = append(wrong, invalid("%s has shapes, which needs [pci] report_in_placement; switch that on, or remove "+
				"shapes", where(r)))
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

// checkClass refuses another class for a device that is held, as in its claim or in Placement: as in Nova, changing
// the class of an allocated device would remove its allocations.
func (f Facts) checkClass(m match, c device.Claim) error {
	class := m.offer.ResourceClass
	if c.Provider == "" && m.rule.ForPorts() {
		return nil // Placement has not counted it, so no allocation has its class
	}
	was := c.ResourceClass
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
		if m.offer.ResourceClass != first.offer.ResourceClass {
			return invalid("%s has class %s and %s has class %s, but VFs of one PF need one class; give both rules the same "+
				"resource_class",
				m, m.offer.ResourceClass, first, first.offer.ResourceClass)
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
	if g.isCard() {
		return g.checkCard()
	}
	if g.self != nil && len(g.vfs) > 0 && len(g.counted()) > 0 && !g.forPorts() {
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

// checkCard refuses a card of which another rule offers a VF, and one whose VFs carry vDPA devices: these are for
// ports.
func (g group) checkCard() error {
	for _, m := range g.vfs {
		switch {
		case !m.rule.Shapes:
			return invalid("the PF %s is offered with shapes, and of its VFs %s; one entry with shapes offers both, so put it "+
				"before the other, or remove the other", g.self, m)
		case m.offer.Device.Type != pci.Virtual:
			return invalid("the PF %s is offered with shapes, but its VF %s carries a vDPA device; remove that, or remove "+
				"shapes", g.self, m.offer.Device.Address)
		}
	}
	return nil
}

// forPorts reports whether all offered devices of the group are for network ports.
func (g group) forPorts() bool {
	alias := func(m match) bool { return !m.rule.ForPorts() }
	return (g.self == nil || !alias(*g.self)) && !slices.ContainsFunc(g.vfs, alias)
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

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...)
}
