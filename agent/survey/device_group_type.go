package survey

import (
	"slices"

	"github.com/openberth/berth/agent/device"
)

// group is what one device provider counts: a plain device, a PF, or the VFs of a PF.
type group struct {
	name        string
	self        *match         // the plain device or PF, if it is offered
	vfs         []match        // by address
	heldOnly    []device.Claim // held, but no longer offered for Placement to count
	heldOffered []device.Claim // held and offered
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

// total returns how much of their class the counted devices of the provider are: the number of slices of a card that is
// offered as its PF or as its VFs, otherwise one for each device; and at least as much as holders of them have taken,
// before the rule or the number of VFs changed.
func (g group) total(counted []match) int {
	total, taken := len(counted), 0
	if g.isCard() {
		total = g.self.offer.Amount()
	}
	for _, c := range g.heldOffered {
		taken += c.Amount()
	}
	return max(total, taken)
}

// isCard reports whether the PF is offered also as its VFs.
func (g group) isCard() bool { return g.self != nil && g.self.rule.Shapes }
