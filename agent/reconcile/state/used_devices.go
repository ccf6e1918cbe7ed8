package state

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/resource"
)

// MarkUsed records that the guest has started with its devices for one-time use.
func (c *Core) MarkUsed(id string) {
	spent := c.State.Spent()
	for _, claim := range c.Set.Held(resource.ConsumerID(id)) {
		at := claim.ID()
		if use, known := spent[at]; !claim.OneTimeUse || known && !use.Returning {
			continue
		}
		c.Record(journal.Used(at, journal.Spent{}))
		c.Set = c.Set.Spend(at, true)
		c.Log("one-time-use device used", "address", at.String(), "server", id)
		c.ReportChanged()
		c.WantSync = true // the next sync reserves it
	}
}

// MarkUsedByGuests calls markUsed for all running guests: an earlier agent may have stopped right after a guest's
// start.
func (c *Core) MarkUsedByGuests() {
	for _, id := range slices.Sorted(maps.Keys(c.Guests)) {
		if !c.Guests[id].Stopped {
			c.MarkUsed(id)
		}
	}
}

// IsSpent reports whether a device has been used and must be cleaned: the journal has it, or Placement has it
// reserved, as after an agent of Nova.
func (c *Core) IsSpent(e device.Entry) bool {
	if e.Spent || !e.OneTimeUse {
		return e.Spent
	}
	if use, known := c.State.Spent()[e.ID()]; known {
		return !use.Returning
	}
	p, _ := c.Tree.ByID(e.Provider)
	inv, has := p.Inventories[e.ResourceClass]
	return has && e.Holder == "" && inv.Reserved >= inv.Total && c.State.Reserved()[e.Provider] == 0
}

// RecordReservedAsUsed records disabled devices for one-time use as used if only Placement shows that, as after an
// agent of Nova: from now on this agent reserves them for another reason too.
func (c *Core) RecordReservedAsUsed() {
	for _, e := range c.Set.Entries() {
		if _, known := c.State.Spent()[e.ID()]; e.Disabled && !known && c.IsSpent(e) {
			c.Record(journal.Used(e.ID(), journal.Spent{Provider: e.Provider}))
			c.Set = c.Set.Spend(e.ID(), true)
		}
	}
}
