package lifecycle

import (
	"maps"
	"slices"

	"github.com/openberth/berth/compute/schedule"
)

// EndedStays lists the guests of stays that after does not have any more and before had, by host and consumer. A stay whose guest the agent
// may still know under an earlier id is listed under both ids. A stay at which nothing is left is not listed.
func EndedStays(before, after Server) []Removal {
	present := func(s Server) map[Removal]bool {
		out := map[Removal]bool{}
		for _, stay := range s.Stays() {
			for _, id := range []string{stay.Consumer, stay.Was} {
				if id != "" && stay.Host != "" && !stay.Gone {
					out[Removal{Host: stay.Host, Consumer: id}] = true
				}
			}
		}
		return out
	}
	list := present(before)
	now := present(after)
	maps.DeleteFunc(list, func(r Removal, _ bool) bool { return now[r] })
	return slices.SortedFunc(maps.Keys(list), func(a, b Removal) int {
		return slices.Compare([]string{a.Host, a.Consumer}, []string{b.Host, b.Consumer})
	})
}

// RemovalsAt lists the guests that must be destroyed on a host: those of the records of the servers that stay there, and the recorded ones
// that these records do not mention.
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

// Contradicts reports whether the guests of a host contradict the record of the server. behind is true when the host's agent does not follow
// the assignments: then any guest of the server, and any stay of it there, is a contradiction. Else only a guest is that the assignments do
// not mention on a host where the record places nothing of the server.
func (s Server) Contradicts(host string, behind bool, guests []schedule.Present) bool {
	has := slices.ContainsFunc(guests, func(g schedule.Present) bool {
		return (behind || !g.Assigned) && (g.ID == s.ID || g.Server == s.ID)
	})
	if behind {
		return has || s.staysOn(host)
	}
	return has && !s.staysOn(host)
}

// staysOn reports whether the record places anything of the server on a host, or is about to.
func (s Server) staysOn(host string) bool {
	if s.Host == host || len(s.Choices) > 0 && s.Choices[0].Host == host {
		return true
	}
	return slices.ContainsFunc(s.Stays(), func(stay Stay) bool { return stay.Host == host })
}
