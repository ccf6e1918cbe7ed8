package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fleet/headroom"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// AskSource is what was found out about a request. What is nil was not found out, for the reason in Missing.
type AskSource struct {
	Error      string                 // why the request is not valid; empty: it is
	LeftOut    string                 // what of the request is not asked; empty: nothing
	Candidates *placement.Candidates  // as Placement answers now
	Why        *placement.Explanation // why there are none
	Room       *Room                  // how many more servers fit
	Filters    bool                   // Room is counted with the filters of compute, which Placement does not have
	Missing    []string
	Reading    string // progress of the read of the cloud, for which the answer waits; empty: it does not wait
}

// Answer is the view of a request.
type Answer struct {
	AskSource
	Head    string     // how many candidates there are
	Hosts   []HostName // those of the first candidates
	Others  int        // further hosts of the candidates
	First   []TakeRow  // what the first candidate takes
	Reason  []Segment  // why there are no candidates
	Funnel  []FunnelRow
	Nearest []DeficitRow
	Sum     string // how many more servers fit
	Groups  []RoomRow
	Rows    []RoomRow // hosts, the most room first
	More    int       // hosts that Rows lacks
}

// TakeRow is what a candidate takes of one provider.
type TakeRow struct {
	Groups   string
	Provider string
	Takes    string
	InUse    []string // of each class that is taken, before the request
}

// DeficitRow is what one of the nearest hosts lacks of one class.
type DeficitRow struct {
	HostName
	placement.ExplainDeficit
	Share   int // in percent, of what is in use
	Holders []HeldProvider
}

// HeldProvider is a provider that is in use, and who holds it.
type HeldProvider struct {
	Provider string
	Servers  [][]Segment
}

// The largest numbers of hosts in an answer.
const (
	maxFirstHosts = 12
	maxRoomHosts  = 40
)

// Answer returns the view of a request. c is nil for a user who may not read the cloud, or while it is not read.
func (c *Cloud) Answer(s AskSource) *Answer {
	a := &Answer{AskSource: s}
	if s.Candidates != nil {
		c.addCandidates(a, *s.Candidates)
	}
	if s.Why != nil && s.Why.Reason != "" {
		a.Reason, a.Funnel = c.Sentence(s.Why.Reason), funnelRows(s.Why.Funnel)
		for _, miss := range s.Why.Nearest {
			c.addMiss(a, miss)
		}
	}
	if s.Room != nil {
		a.Sum, a.Groups = s.Room.Sum(len(a.Reason) == 0), c.roomOfAggregates(*s.Room)
		a.Rows = roomRows(s.Room.Hosts)
		a.More = max(len(a.Rows)-maxRoomHosts, 0)
		a.Rows = a.Rows[:len(a.Rows)-a.More]
	}
	return a
}

// addCandidates adds the number of candidates, their first hosts, and what the first one takes.
func (c *Cloud) addCandidates(a *Answer, found placement.Candidates) {
	n := len(found.List)
	if n == 0 {
		a.Head = "No host fits"
		return
	}
	seen, all := map[HostName]bool{}, 0
	for _, one := range found.List {
		for id := range one.Allocation {
			name, is := c.hostOfRoot(found.Summaries[id].Root)
			if !is || seen[name] {
				continue
			}
			seen[name] = true
			if all++; all <= maxFirstHosts {
				a.Hosts = append(a.Hosts, name)
			}
		}
	}
	a.Others = all - len(a.Hosts)
	a.Head = Plural(n, "candidate") + ", on " + Plural(all, "host")
	if !found.Complete {
		a.Head = "At least " + a.Head
	}
	first := found.List[0]
	for id, amounts := range first.Allocation {
		row := TakeRow{Groups: groupsOf(first, id), Provider: c.named(string(id)).Text, Takes: amounts.String()}
		for _, class := range amounts.Sorted() {
			have := found.Summaries[id].Resources[class]
			row.InUse = append(row.InUse, string(class)+" "+Number(have.Used)+" of "+Number(have.Capacity))
		}
		a.First = append(a.First, row)
	}
	slices.SortFunc(a.First, func(a, b TakeRow) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Takes, b.Takes))
	})
}

// hostOfRoot returns the host of a root provider. It reports false for a provider that is known and not a host, such as
// shared storage.
func (c *Cloud) hostOfRoot(root provider.ID) (name HostName, is bool) {
	if c == nil || c.Fleet.Provider[root] == nil {
		return HostName{Name: string(root)}, true
	}
	known := c.Fleet.Provider[root].Name
	return HostName{known, true}, c.byName[known] != nil
}

// groupsOf returns the groups of a candidate that one provider serves, for people.
func groupsOf(one placement.Candidate, id provider.ID) string {
	var groups []string
	for suffix, providers := range one.Mappings {
		if slices.Contains(providers, id) {
			groups = append(groups, cmp.Or(suffix, "server"))
		}
	}
	slices.Sort(groups)
	return strings.Join(groups, ", ")
}

// addMiss adds what one of the nearest hosts lacks.
func (c *Cloud) addMiss(a *Answer, miss placement.ExplainNearestMiss) {
	for _, d := range miss.Deficits {
		row := DeficitRow{HostName: HostName{miss.Host, c != nil && c.byName[miss.Host] != nil}, ExplainDeficit: d,
			Share: Amount{d.Of - d.Free, d.Of}.Share()}
		for _, h := range d.HeldBy {
			holders := HeldProvider{Provider: cmp.Or(h.Name, string(h.Provider))}
			for _, consumer := range h.Consumers {
				holders.Servers = append(holders.Servers, []Segment{c.named(string(consumer))})
			}
			row.Holders = append(row.Holders, holders)
		}
		a.Nearest = append(a.Nearest, row)
	}
}

// Room is how many more servers of one kind fit.
type Room struct {
	Fits     int
	Exact    bool // false: more may fit
	Shared   bool // hosts use shared storage, so the numbers of hosts depend on each other
	Reason   string
	RunsOut  []headroom.RunsOut
	Hosts    []RoomHost // those with most room first
	Excluded []RoomHost // those that are not counted, with the reason as Note
}

// RoomHost is how many more servers fit on a host.
type RoomHost struct {
	Host  string
	Fits  int
	Exact bool             // false: more may fit
	Lacks []resource.Class // of which one more server lacks some
	Note  string           // why no more fit
}

// RoomOf returns the room by what Placement has.
func RoomOf(r headroom.Result) *Room {
	out := &Room{Fits: r.Fits, Exact: r.Exact, Shared: r.Shared, Reason: r.Reason, RunsOut: r.RunsOut}
	for _, h := range r.Hosts {
		out.Hosts = append(out.Hosts, RoomHost{Host: h.Name, Fits: h.Fits, Exact: r.Exact, Lacks: h.Lacks})
	}
	for _, e := range r.Excluded {
		out.Excluded = append(out.Excluded, RoomHost{Host: e.Host, Note: e.Why})
	}
	return out
}

// RoomOfBerth returns the room as Berth's compute counts it.
func RoomOfBerth(r host.Headroom) *Room {
	out := &Room{Fits: r.Fits, Exact: r.Exact, Reason: r.Reason}
	for _, one := range r.RunsOut {
		out.RunsOut = append(out.RunsOut, headroom.RunsOut{Class: resource.Class(one.Class), Hosts: one.Hosts})
	}
	for _, h := range r.ByHost {
		if h.Excluded != "" {
			out.Excluded = append(out.Excluded, RoomHost{Host: h.Host, Note: h.Excluded})
			continue
		}
		one := RoomHost{Host: h.Host, Fits: h.Fits, Exact: h.Exact, Note: h.Refused}
		for _, class := range h.Lacks {
			one.Lacks = append(one.Lacks, resource.Class(class))
		}
		out.Hosts = append(out.Hosts, one)
	}
	slices.SortStableFunc(out.Hosts, func(a, b RoomHost) int { return cmp.Compare(b.Fits, a.Fits) })
	return out
}

// Sum returns how many more servers fit, and what runs out first, as a sentence. why: with the reason if none fits.
func (r Room) Sum(why bool) string {
	text := Plural(r.Fits, "more server") + " fit"
	if r.Fits == 1 {
		text += "s"
	}
	if !r.Exact {
		text = "At least " + text
	}
	if runsOut := runsOutText(r.RunsOut); runsOut != "" {
		text += "; " + runsOut + " runs out first"
	}
	if why && r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// runsOutText returns the class that most hosts lack first, as in "VCPU on 2 hosts"; empty: there is none.
func runsOutText(list []headroom.RunsOut) string {
	if len(list) == 0 {
		return ""
	}
	return string(list[0].Class) + " on " + Plural(list[0].Hosts, "host")
}

// RoomRow is how many more servers fit on a host, or on the hosts of an aggregate.
type RoomRow struct {
	Name  string
	Fits  int
	Exact bool   // false: more may fit
	Share int    // of the largest row, in percent
	Hosts int    // with room; of an aggregate
	Then  string // what one more server lacks
}

// Text returns the number for a table.
func (r RoomRow) Text() string {
	if !r.Exact {
		return "at least " + Number(r.Fits)
	}
	return Number(r.Fits)
}

// roomRows returns the rows of hosts.
func roomRows(hosts []RoomHost) (rows []RoomRow) {
	for _, h := range hosts {
		classes := make([]string, len(h.Lacks))
		for i, class := range h.Lacks {
			classes[i] = string(class)
		}
		rows = append(rows, RoomRow{Name: h.Host, Fits: h.Fits, Exact: h.Exact,
			Then: cmp.Or(h.Note, strings.Join(classes, ", "))})
	}
	return withShares(rows)
}

// withShares adds the shares of rows.
func withShares(rows []RoomRow) []RoomRow {
	most := 0
	for _, row := range rows {
		most = max(most, row.Fits)
	}
	for i := range rows {
		rows[i].Share = Amount{rows[i].Fits, most}.Share()
	}
	return rows
}

// roomOfAggregates returns the room by aggregate, by name. A host counts in each of its aggregates. It returns no rows
// if no host is in an aggregate.
func (c *Cloud) roomOfAggregates(r Room) []RoomRow {
	if c == nil || len(c.Aggregates) == 0 {
		return nil
	}
	rows, lacks := map[string]*RoomRow{}, map[string]map[resource.Class]int{}
	for _, one := range r.Hosts {
		names := []string{noAggregate}
		if h := c.byName[one.Host]; h != nil && len(h.Aggregates) > 0 {
			names = h.Aggregates
		}
		for _, name := range names {
			if rows[name] == nil {
				rows[name], lacks[name] = &RoomRow{Name: name, Exact: true}, map[resource.Class]int{}
			}
			rows[name].Exact = rows[name].Exact && one.Exact
			rows[name].Fits, rows[name].Hosts = rows[name].Fits+one.Fits, rows[name].Hosts+min(one.Fits, 1)
			for _, class := range one.Lacks {
				lacks[name][class]++
			}
		}
	}
	var list []RoomRow
	for name, row := range rows {
		var first []headroom.RunsOut
		for class, n := range lacks[name] {
			first = append(first, headroom.RunsOut{Class: class, Hosts: n})
		}
		slices.SortFunc(first, func(a, b headroom.RunsOut) int {
			return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(a.Class, b.Class))
		})
		row.Then = runsOutText(first)
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b RoomRow) int {
		return cmp.Or(cmp.Compare(b.Fits, a.Fits), cmp.Compare(a.Name, b.Name))
	})
	return withShares(list)
}

// noAggregate is the group of hosts in no aggregate.
const noAggregate = "no aggregate"
