package schedule

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Search is how a search for a host has ended: how many hosts each clause has left, and the hosts that lack the least.
type Search struct {
	Funnel  []FunnelRow
	Nearest []NearestMiss
}

// FunnelRow is one clause of a search. The first row is the hosts that it began with.
type FunnelRow struct {
	Clause  string   // what the hosts left do, such as "offer CUSTOM_NIC"
	Left    int      // number of hosts
	Removed []string // names of hosts that it removed, at most maxHosts
}

// NearestMiss is a host that was refused and lacks little.
type NearestMiss struct {
	Host     string
	Deficits []Deficit
}

// Deficit is what a host lacks.
type Deficit struct {
	Class resource.Class // empty: it is not known, or not a class
	Cause string         // of Placement: held, reserved, absent, …; else the name of the filter
	Asks  int            // of Class, or of devices that a filter found too few of; 0 from other filters, as Free and Of
	Free  int
	Of    int
	Text  string // the deficit as a sentence
}

// maxNearest is the number of nearest misses of a search.
const maxNearest = 3

// clauses are the filters in their order, and what the hosts do that they leave.
var clauses = []struct {
	filter Filter
	text   string
}{
	{FilterHost, "are in service and permitted"},
	{FilterAllocations, "have the allocations of all their servers in Placement"},
	{FilterAntiAffinity, "have no other server of the group"},
	{FilterAffinity, "have the servers of the group"},
	{FilterSameHost, "have one of the servers of same_host"},
	{FilterDifferentHost, "have none of the servers of different_host"},
	{FilterZone, "are in the availability zone"},
	{FilterTenants, "are in aggregates for the project"},
	{FilterExtraSpecs, "are in aggregates with the extra specs"},
	{FilterDevices, "have the devices free"},
	{FilterNUMA, "have NUMA nodes with room"},
	{FilterPlacement, "have room for the rest in Placement"},
}

// SearchOf returns how a search has ended that began with some number of hosts, which hosts says in words. The hosts in
// accepted were not removed, even if there are refusals of other candidates there.
func SearchOf(hosts string, number int, accepted map[string]bool, refusals []Refusal) Search {
	out := Search{Funnel: []FunnelRow{{Clause: hosts, Left: number}}}
	furthest := map[string]Refusal{} // by host: of its candidates, the one that got furthest
	for _, r := range refusals {
		before, found := furthest[r.Host]
		if !accepted[r.Host] && (!found || compareMisses(r, before) < 0) {
			furthest[r.Host] = r
		}
	}
	removed := make([][]string, len(clauses))
	for host, r := range furthest {
		at := clauseOf(r.Filter)
		removed[at] = append(removed[at], host)
	}
	for at, list := range removed {
		if len(list) == 0 {
			continue
		}
		number -= len(list)
		slices.Sort(list)
		row := FunnelRow{Clause: clauses[at].text, Left: number, Removed: list[:min(len(list), maxHosts)]}
		out.Funnel = append(out.Funnel, row)
	}
	misses := slices.SortedFunc(maps.Values(furthest), compareMisses)
	for _, r := range misses[:min(len(misses), maxNearest)] {
		text := r.Reason
		if r.Nearest != "" {
			text += " (" + strings.TrimPrefix(r.Device+": ", ": ") + r.Nearest + ")"
		}
		out.Nearest = append(out.Nearest, NearestMiss{r.Host, []Deficit{{Class: r.Class, Cause: string(r.Filter),
			Asks: r.Asks, Free: r.Free, Of: r.Of, Text: text}}})
	}
	return out
}

// compareMisses orders refusals: first that of the candidate which more filters have accepted, and which lacks less.
func compareMisses(a, b Refusal) int {
	return cmp.Or(cmp.Compare(clauseOf(b.Filter), clauseOf(a.Filter)), cmp.Compare(a.Shortfall, b.Shortfall),
		strings.Compare(a.Host, b.Host))
}

// clauseOf returns the position of a filter in clauses.
func clauseOf(f Filter) int {
	for at, c := range clauses {
		if c.filter == f {
			return at
		}
	}
	return 0 // does not occur: clauses has all filters
}

// SearchOf returns how the search among the candidates of the input has ended, by the refusals of Choose.
func (p Input) SearchOf(refusals []Refusal) Search {
	tries := map[string]int{}
	roots := map[provider.ID]bool{}
	for _, c := range p.Candidates {
		roots[c.Root] = true
		tries[p.nameOf(c.Root)]++
	}
	for _, r := range refusals {
		tries[r.Host]--
	}
	accepted := map[string]bool{}
	for host, left := range tries {
		accepted[host] = left > 0
	}
	return SearchOf("hosts of the candidates", len(roots), accepted, refusals)
}
