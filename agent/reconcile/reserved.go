package reconcile

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/provider"
)

// withUsed sets Spent in each offer as the journal has it now; the observation may be older.
func (s *syncer) withUsed(offers []device.Offer) []device.Offer {
	spent := s.state.Spent()
	out := slices.Clone(offers)
	for i := range out {
		mark, known := spent[out[i].ID()]
		out[i].Spent = known && !mark.Returning && slices.Contains(out[i].Traits, survey.OneTimeUse)
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

// detectManualReturn marks a device as cleaned when an operator has set its reserved amount in Placement to zero and
// no consumer holds it: this is how Nova's operators return a device for one-time use. A total above the reserved
// amount does not count: heal raises the total for a moment when it moves or rewrites a holder's allocation.
func (s *syncer) detectManualReturn(f survey.Facts) {
	spent := s.state.Spent()
	for _, at := range slices.SortedFunc(maps.Keys(spent), device.ID.Compare) {
		mark := spent[at]
		e, there := s.set.At(at)
		p, reported := f.Actual.ByID(mark.Provider)
		inv, has := p.Inventories[e.Class]
		if !there || mark.Returning || mark.Provider == "" || !reported || !has || inv.Reserved > 0 || e.Holder != "" {
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
		mark := spent[at]
		e, there := s.set.At(at)
		p, reported := tree.ByID(e.Provider)
		inv := p.Inventories[e.Class]
		switch {
		case mark.Returning && (!there || !reported || inv.Reserved == 0):
			s.record(journal.Cleaned(at))
			s.reportChanged()
		case mark.Returning:
		case reported && inv.Total > 0 && inv.Reserved >= inv.Total && mark.Provider != p.ID:
			s.record(journal.Used(at, journal.Spent{Provider: p.ID}))
		case mark.Provider != "" && there && !reported:
			s.record(journal.Used(at, journal.Spent{}))
		}
	}
}
