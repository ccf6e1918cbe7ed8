package reconcile

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// markUsed records that the guest has started with its devices for one-time use.
func (c *core) markUsed(id string) {
	spent := c.state.Spent()
	for _, claim := range c.set.Held(resource.ConsumerID(id)) {
		at := claim.Device.Address
		if mark, known := spent[at]; !slices.Contains(claim.Traits, survey.OneTimeUse) || known && !mark.Returning {
			continue
		}
		c.record(journal.Used(at, journal.Spent{}))
		c.set = c.set.Spend(at, true)
		c.log("one-time-use device used", "address", at.String(), "server", id)
		c.reportChanged()
		c.wantSync = true // the next sync reserves it
	}
}

// markUsedByGuests calls markUsed for all running guests: an earlier agent may have stopped right after a guest's
// start.
func (c *core) markUsedByGuests() {
	for _, id := range slices.Sorted(maps.Keys(c.guests)) {
		if !c.guests[id].Stopped {
			c.markUsed(id)
		}
	}
}

// withUsed sets Spent in each offer as the journal has it now; the observation may be older.
func (c *core) withUsed(offers []device.Offer) []device.Offer {
	spent := c.state.Spent()
	out := slices.Clone(offers)
	for i := range out {
		mark, known := spent[out[i].Device.Address]
		out[i].Spent = known && !mark.Returning && slices.Contains(out[i].Traits, survey.OneTimeUse)
	}
	return out
}

// cleanedProviders returns the providers whose device has been cleaned.
func cleanedProviders(offers []device.Offer, state journal.State) map[provider.ID]bool {
	out, spent := map[provider.ID]bool{}, state.Spent()
	for _, o := range offers {
		if o.Provider != "" && spent[o.Device.Address].Returning {
			out[o.Provider] = true
		}
	}
	return out
}

// detectManualReturn marks a device as cleaned when an operator has set its reserved amount in Placement to zero and
// no consumer holds it: this is how Nova's operators return a device for one-time use. A total above the reserved
// amount does not count: heal raises the total for a moment when it moves or rewrites a holder's allocation.
func (c *core) detectManualReturn(f survey.Facts) {
	spent := c.state.Spent()
	for _, at := range slices.SortedFunc(maps.Keys(spent), pci.Address.Compare) {
		mark := spent[at]
		e, there := c.set.At(at)
		p, reported := f.Actual.ByID(mark.Provider)
		inv, has := p.Inventories[e.Class]
		if !there || mark.Returning || mark.Provider == "" || !reported || !has || inv.Reserved > 0 || e.Holder != "" {
			continue
		}
		c.record(journal.Cleaned(at))
		c.set = c.set.Spend(at, false)
		f.Spent[at] = false
		c.log("one-time-use device returned in Placement", "address", at.String())
		c.reportChanged()
	}
}

// recordReserved records which used devices Placement now has as reserved, and which cleaned ones it no longer has.
func (c *core) recordReserved(tree provider.Tree) {
	spent := c.state.Spent()
	for _, at := range slices.SortedFunc(maps.Keys(spent), pci.Address.Compare) {
		mark := spent[at]
		e, there := c.set.At(at)
		p, reported := tree.ByID(e.Provider)
		inv := p.Inventories[e.Class]
		switch {
		case mark.Returning && (!there || !reported || inv.Reserved == 0):
			c.record(journal.Cleaned(at))
			c.reportChanged()
		case mark.Returning:
		case reported && inv.Total > 0 && inv.Reserved >= inv.Total && mark.Provider != p.ID:
			c.record(journal.Used(at, journal.Spent{Provider: p.ID}))
		case mark.Provider != "" && there && !reported:
			c.record(journal.Used(at, journal.Spent{}))
		}
	}
}

// isSpent reports whether a device has been used and must be cleaned: the journal has it, or Placement has it
// reserved, as after an agent of Nova.
func (c *core) isSpent(e device.Entry) bool {
	if e.Spent || !slices.Contains(e.Traits, survey.OneTimeUse) {
		return e.Spent
	}
	if mark, known := c.state.Spent()[e.Device.Address]; known {
		return !mark.Returning
	}
	p, _ := c.tree.ByID(e.Provider)
	inv, has := p.Inventories[e.Class]
	return has && e.Holder == "" && inv.Reserved >= inv.Total
}
