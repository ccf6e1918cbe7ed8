package reconcile

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/resource"
)

// markUsed records that the guest has started with its devices for one-time use.
func (c *core) markUsed(id string) {
	spent := c.state.Spent()
	for _, claim := range c.set.Held(resource.ConsumerID(id)) {
		at := claim.ID()
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

// isSpent reports whether a device has been used and must be cleaned: the journal has it, or Placement has it
// reserved, as after an agent of Nova.
func (c *core) isSpent(e device.Entry) bool {
	if e.Spent || !slices.Contains(e.Traits, survey.OneTimeUse) {
		return e.Spent
	}
	if mark, known := c.state.Spent()[e.ID()]; known {
		return !mark.Returning
	}
	p, _ := c.tree.ByID(e.Provider)
	inv, has := p.Inventories[e.Class]
	return has && e.Holder == "" && inv.Reserved >= inv.Total
}
