package lifecycle

import (
	"slices"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Contradicts reports whether the guests of a host contradict the record of the server. behind is true when the host's
// agent does not follow the assignments: then any guest and any residence of the server there is a contradiction.
// Otherwise only a guest that is neither in the agent's assignments nor in those that follow from the record now is
// one.
func (s Server) Contradicts(host string, behind bool, guests []schedule.Present) bool {
	return behind && s.usesHost(host) || slices.ContainsFunc(guests, func(g schedule.Present) bool {
		return (g.ID == s.ID || g.Server == s.ID) && (behind || !g.Assigned && !s.isAssigned(host, g.ID))
	})
}

// MovedAhead reports whether the move has ended after the record was written, as with a record from a backup: the
// guests of the destination include the server's own although the record has the guest of this consumer still running
// at the source. A stopped source may exist beside the destination.
func (s Server) MovedAhead(consumer string, destination []schedule.Present) bool {
	if s.Move == nil || s.Power == Off || s.Move.StopSource {
		return false
	}
	from := s.Move.From
	return consumer == from.Consumer && consumer != s.ID && s.Host != from.Host &&
		slices.ContainsFunc(destination, func(g schedule.Present) bool { return g.ID == s.ID })
}

// HeldFor returns the consumer to which an allocation of the server's own consumer belongs according to the record: the
// source of a move or a leftover. It is empty if the allocation is the server's own. A record is older than such an
// allocation if it is from a backup and the server has since returned to that host.
func (s Server) HeldFor(own resource.Allocation) string {
	others := slices.Clone(s.Leftovers)
	if s.Move != nil && s.Move.AllocationsMoved() {
		others = append(others, s.Move.From)
	}
	for _, residence := range others {
		if residence.Gone || residence.Choice == nil || len(own) == 0 {
			continue
		}
		_, there := own[residence.Choice.Root]
		placed := s.Host == residence.Host || len(s.Choices) > 0 && s.Choices[0].Host == residence.Host
		if there && !placed || own.Equal(residence.Choice.Allocation) {
			return residence.Consumer
		}
	}
	return ""
}

// SourceMoved reports whether the migration has the allocation of the source of a move already, although the record is
// from before that: own, the allocation of the server's own consumer, is then that of a destination which the record
// does not have. So it is with a record from a backup that is older than the move of the allocations.
func (s Server) SourceMoved(own, migration resource.Allocation) bool {
	from := s.Move.From
	if from.Choice == nil || len(own) == 0 || len(migration[from.Choice.Root]) == 0 {
		return false
	}
	if len(own[from.Choice.Root]) == 0 {
		return true
	}
	used := map[provider.ID]int{} // a destination on the same host may have the devices of other providers
	for _, d := range from.Devices {
		used[d.Provider]++
	}
	for id, n := range used {
		has := 0
		for _, amount := range own[id] {
			has += amount
		}
		if id != "" && has < n {
			return true
		}
	}
	return false
}

// isAssigned reports whether the assignments of a host name a guest of the server, to exist or to be removed.
func (s Server) isAssigned(host, id string) bool {
	return slices.ContainsFunc(s.Entries(), func(e Entry) bool {
		return e.Host == host && (e.Consumer == id || e.PreviousConsumer == id)
	}) || slices.ContainsFunc(s.Removals(), func(r Removal) bool {
		return r.Host == host && (r.Consumer == id || r.PreviousConsumer == id)
	})
}

// usesHost reports whether the record places anything of the server on a host, or is about to.
func (s Server) usesHost(host string) bool {
	if s.Host == host || len(s.Choices) > 0 && s.Choices[0].Host == host {
		return true
	}
	return slices.ContainsFunc(s.Residences(), func(residence Residence) bool { return residence.Host == host })
}
