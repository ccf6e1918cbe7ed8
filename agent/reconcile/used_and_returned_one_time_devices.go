package reconcile

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// markUsed records that the guest has started with its devices for one-time use.
func (c *core) markUsed(id string) {
	spent := c.state.Spent()
	for _, claim := range c.set.Held(resource.ConsumerID(id)) {
		at := claim.ID()
		if use, known := spent[at]; !claim.OneTimeUse || known && !use.Returning {
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
	if e.Spent || !e.OneTimeUse {
		return e.Spent
	}
	if use, known := c.state.Spent()[e.ID()]; known {
		return !use.Returning
	}
	p, _ := c.tree.ByID(e.Provider)
	inv, has := p.Inventories[e.ResourceClass]
	return has && e.Holder == "" && inv.Reserved >= inv.Total
}

// withUsed sets Spent in each offer as the journal has it now; the observation may be older.
func (s *syncer) withUsed(offers []device.Offer) []device.Offer {
	spent := s.state.Spent()
	out := slices.Clone(offers)
	for i := range out {
		use, known := spent[out[i].ID()]
		out[i].Spent = known && !use.Returning && out[i].OneTimeUse
	}
	return out
}

// cleanedProviders returns the providers whose device has been cleaned.
func cleanedProviders(offers []device.Offer, state journal.State) map[provider.ID]bool {
	out, spent := map[provider.ID]bool{}, state.Spent()
	for _, o := range offers {
		if o.Provider != "" && spent[o.ID()].Returning {
			out[o.Provider] = true
		}
	}
	return out
}

// detectManualReturn records a device as cleaned when an operator has set its reserved amount in Placement to zero and
// no consumer holds it: this is how Nova's operators return a device for one-time use. A total above the reserved
// amount does not count: a plan increases the total briefly while it moves or rewrites a holder's allocation.
func (s *syncer) detectManualReturn(f survey.Facts) {
	spent := s.state.Spent()
	for _, at := range slices.SortedFunc(maps.Keys(spent), device.ID.Compare) {
		use := spent[at]
		e, there := s.set.At(at)
		p, reported := f.Actual.ByID(use.Provider)
		inv, has := p.Inventories[e.ResourceClass]
		if !there || use.Returning || use.Provider == "" || !reported || !has || inv.Reserved > 0 || e.Holder != "" {
			continue
		}
		s.record(journal.Cleaned(at))
		s.set = s.set.Spend(at, false)
		f.Spent[at] = false
		s.log("one-time-use device returned in Placement", "address", at.String())
		s.reportChanged()
	}
}

// recordReserved records which used devices Placement now has as reserved, and which cleaned ones it no longer has.
func (s *syncer) recordReserved(tree provider.Tree) {
	spent := s.state.Spent()
	for _, at := range slices.SortedFunc(maps.Keys(spent), device.ID.Compare) {
		use := spent[at]
		e, there := s.set.At(at)
		p, reported := tree.ByID(e.Provider)
		inv := p.Inventories[e.ResourceClass]
		switch {
		case use.Returning && (!there || !reported || inv.Reserved == 0):
			s.record(journal.Cleaned(at))
			s.reportChanged()
		case use.Returning:
		case reported && inv.Total > 0 && inv.Reserved >= inv.Total && use.Provider != p.ID:
			s.record(journal.Used(at, journal.Spent{Provider: p.ID}))
		case use.Provider != "" && there && !reported:
			s.record(journal.Used(at, journal.Spent{}))
		}
	}
}
