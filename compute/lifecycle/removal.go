package lifecycle

import (
	"maps"
	"slices"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/resource"
)

// EndedStays lists the guests of stays that after does not have any more and before had, by host and consumer. A stay
// whose guest the agent may still know under an earlier id is listed under both ids. A stay at which nothing is left is
// not listed, and neither is the earlier id of a stay that goes on: its agent has given the guest the new id.
func EndedResidences(before, after Server) []Removal {
	now := map[Removal]bool{}
	for _, stay := range after.Residences() {
		if !stay.Gone {
			now[Removal{Host: stay.Host, Consumer: stay.Consumer}] = true
			now[Removal{Host: stay.Host, Consumer: stay.PreviousConsumer}] = true
		}
	}
	ended := map[Removal]bool{}
	for _, stay := range before.Residences() {
		if stay.Gone || stay.Host == "" {
			continue
		}
		r := Removal{Host: stay.Host, Consumer: stay.Consumer}
		was := Removal{Host: stay.Host, Consumer: stay.PreviousConsumer}
		ended[r] = ended[r] || !now[r]
		ended[was] = ended[was] || stay.PreviousConsumer != "" && !now[r] && !now[was]
	}
	maps.DeleteFunc(ended, func(_ Removal, is bool) bool { return !is })
	return slices.SortedFunc(maps.Keys(ended), func(a, b Removal) int {
		return slices.Compare([]string{a.Host, a.Consumer}, []string{b.Host, b.Consumer})
	})
}

// RemovalsAt lists the guests that must be destroyed on a host: those of the records of the servers that stay there,
// and the recorded ones that these records do not mention.
func RemovalsAt(host string, servers []Server, recorded []string) []Removal {
	var list []Removal
	named := map[string]bool{}
	for _, server := range servers {
		for _, r := range server.Removals() {
			if r.Host == host {
				list = append(list, r)
				named[r.Consumer] = true
			}
		}
		for _, e := range server.Entries() {
			named[e.Consumer] = named[e.Consumer] || e.Host == host
		}
	}
	for _, id := range recorded {
		if !named[id] {
			list = append(list, Removal{Host: host, Consumer: id})
		}
	}
	return list
}

// Contradicts reports whether the guests of a host contradict the record of the server. behind is true when the host's
// agent does not follow the assignments: then any guest of the server, and any stay of it there, is a contradiction.
// Else only a guest is that the assignments do not mention, also not those that follow from the record now.
func (s Server) Contradicts(host string, behind bool, guests []schedule.Present) bool {
	return behind && s.staysOn(host) || slices.ContainsFunc(guests, func(g schedule.Present) bool {
		return (g.ID == s.ID || g.Server == s.ID) && (behind || !g.Assigned && !s.mentions(host, g.ID))
	})
}

// MovedAhead reports whether the guests of the destination of a move include the server's own although the record, which
// is from a backup, says that the guest of this consumer still runs at the source: the move has ended since. A source
// that is stopped may exist beside its destination.
func (s Server) MovedAhead(consumer string, destination []schedule.Present) bool {
	return s.Move != nil && s.Power != Off && !s.Move.StopSource && consumer == s.Move.From.Consumer && consumer != s.ID &&
		s.Host != s.Move.From.Host && slices.ContainsFunc(destination, func(g schedule.Present) bool { return g.ID == s.ID })
}

// HeldFor returns the consumer to which an allocation of the server's own consumer belongs according to the record: that
// of the source of a move or of a guest that was left behind. It is empty if the allocation is the server's own. The
// record is older than such an allocation, as when it is from a backup: the server has since returned to that host.
func (s Server) HeldFor(own resource.Allocation) string {
	others := slices.Clone(s.Leftovers)
	if s.Move != nil && s.Move.AllocationsMoved {
		others = append(others, s.Move.From)
	}
	for _, stay := range others {
		if stay.Gone || stay.Choice == nil || len(own) == 0 {
			continue
		}
		_, there := own[stay.Choice.Root]
		placed := s.Host == stay.Host || len(s.Choices) > 0 && s.Choices[0].Host == stay.Host
		if there && !placed || own.Equal(stay.Choice.Allocation) {
			return stay.Consumer
		}
	}
	return ""
}

// mentions reports whether the assignments of a host name a guest of the server, to be there or to be removed.
func (s Server) mentions(host, id string) bool {
	return slices.ContainsFunc(s.Entries(), func(e Entry) bool { return e.Host == host && (e.Consumer == id || e.PreviousConsumer == id) }) ||
		slices.ContainsFunc(s.Removals(), func(r Removal) bool { return r.Host == host && (r.Consumer == id || r.Was == id) })
}

// staysOn reports whether the record places anything of the server on a host, or is about to.
func (s Server) staysOn(host string) bool {
	if s.Host == host || len(s.Choices) > 0 && s.Choices[0].Host == host {
		return true
	}
	return slices.ContainsFunc(s.Residences(), func(stay Residence) bool { return stay.Host == host })
}
