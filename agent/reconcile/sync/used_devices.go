package sync

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/provider"
)

// withUsed sets Spent in each offer as the journal has it now; the observation may be older.
func (s *Syncer) withUsed(offers []device.Offer) []device.Offer {
	spent := s.State.Spent()
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
func (s *Syncer) detectManualReturn(f survey.Facts) {
	spent := s.State.Spent()
	for _, at := range slices.SortedFunc(maps.Keys(spent), device.ID.Compare) {
		use := spent[at]
		e, there := s.Set.At(at)
		p, reported := f.Actual.ByID(use.Provider)
		inv, has := p.Inventories[e.ResourceClass]
		if !there || use.Returning || use.Provider == "" || !reported || !has || inv.Reserved > 0 || e.Holder != "" {
			continue
		}
		s.Record(journal.Cleaned(at))
		s.Set = s.Set.Spend(at, false)
		f.Spent[at] = false
		s.Log("one-time-use device returned in Placement", "address", at.String())
		s.ReportChanged()
	}
}

// recordReserved records which used devices Placement now has as reserved, and which cleaned ones it no longer has.
func (s *Syncer) recordReserved(tree provider.Tree) {
	spent := s.State.Spent()
	for _, at := range slices.SortedFunc(maps.Keys(spent), device.ID.Compare) {
		use := spent[at]
		e, there := s.Set.At(at)
		p, reported := tree.ByID(e.Provider)
		inv := p.Inventories[e.ResourceClass]
		switch {
		case use.Returning && (!there || !reported || inv.Reserved == 0):
			s.Record(journal.Cleaned(at))
			s.ReportChanged()
		case use.Returning:
		case reported && inv.Total > 0 && inv.Reserved >= inv.Total && use.Provider != p.ID:
			s.Record(journal.Used(at, journal.Spent{Provider: p.ID}))
		case use.Provider != "" && there && !reported:
			s.Record(journal.Used(at, journal.Spent{}))
		}
	}
}
