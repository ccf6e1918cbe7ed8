package lifecycle

import (
	"maps"
	"slices"
)

// Removal is a guest that must be destroyed on a host.
type Removal struct {
	Host             string
	Consumer         string // its id in the assignments of the host
	PreviousConsumer string // earlier id that the agent may still know the guest by, or empty
}

// Removals lists the guests of the server that must be destroyed: those of residences without an entry in the
// assignments. Residences where nothing has been built yet are omitted.
func (s Server) Removals() []Removal {
	entries := s.Entries()
	var list []Removal
	for _, res := range s.Residences() {
		assigned := func(id string) bool {
			return slices.ContainsFunc(entries, func(e Entry) bool { return e.Host == res.Host && e.Consumer == id })
		}
		unbuilt := res.Consumer == s.ID && s.presence() == claimed
		if unbuilt || res.Gone || res.Host == "" || assigned(res.Consumer) {
			continue
		}
		r := Removal{Host: res.Host, Consumer: res.Consumer, PreviousConsumer: res.PreviousConsumer}
		if assigned(res.PreviousConsumer) {
			r.PreviousConsumer = ""
		}
		list = append(list, r)
	}
	return list
}

// EndedResidences lists the guests of residences that before has and after has not, sorted by host and consumer. A
// residence whose guest the agent may still know by an earlier id is listed with both ids. Residences where nothing is
// left are omitted, and so is the earlier id of a residence that continues: its agent has given the guest the new id.
func EndedResidences(before, after Server) []Removal {
	now := map[Removal]bool{}
	for _, residence := range after.Residences() {
		if !residence.Gone {
			now[Removal{Host: residence.Host, Consumer: residence.Consumer}] = true
			now[Removal{Host: residence.Host, Consumer: residence.PreviousConsumer}] = true
		}
	}
	ended := map[Removal]bool{}
	for _, residence := range before.Residences() {
		if residence.Gone || residence.Host == "" {
			continue
		}
		r := Removal{Host: residence.Host, Consumer: residence.Consumer}
		was := Removal{Host: residence.Host, Consumer: residence.PreviousConsumer}
		ended[r] = ended[r] || !now[r]
		ended[was] = ended[was] || residence.PreviousConsumer != "" && !now[r] && !now[was]
	}
	maps.DeleteFunc(ended, func(_ Removal, is bool) bool { return !is })
	return slices.SortedFunc(maps.Keys(ended), func(a, b Removal) int {
		return slices.Compare([]string{a.Host, a.Consumer}, []string{b.Host, b.Consumer})
	})
}

// RemovalsAt lists the guests that must be destroyed on a host: those that follow from the records of the servers
// there, and the recorded ones that these records do not mention. A record mentions also the former id of a guest:
// until the agent has renamed the guest, a removal by that id would concern the same guest.
func RemovalsAt(host string, servers []Server, recorded []string) []Removal {
	var list []Removal
	named := map[string]bool{}
	for _, server := range servers {
		for _, r := range server.Removals() {
			if r.Host == host {
				list = append(list, r)
				named[r.Consumer], named[r.PreviousConsumer] = true, true
			}
		}
		for _, e := range server.Entries() {
			if e.Host == host {
				named[e.Consumer], named[e.PreviousConsumer] = true, true
			}
		}
	}
	for _, id := range recorded {
		if !named[id] {
			list = append(list, Removal{Host: host, Consumer: id})
		}
	}
	return list
}
