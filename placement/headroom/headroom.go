// Package headroom counts how many more servers of one kind fit on the hosts of an index, and finds what runs out
// first.
//
// Candidates are found by placement/candidate and counted by package headroom. Only what Placement has is counted.
package headroom

import (
	"cmp"
	"slices"
	"strings"

	count "github.com/openberth/berth/headroom"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/explain"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Result is how many more servers fit.
type Result struct {
	Fits    int
	Exact   bool      // false: more servers may fit, because the search reached a limit
	Shared  bool      // hosts use shared storage, so the numbers of the hosts depend on each other
	Reason  string    // why none fits; empty if one does
	Hosts   []Host    // that have room, or would have it without their servers; most room first
	RunsOut []RunsOut // the class that more hosts lack first comes first
}

// Host is how many more servers fit on a host.
type Host struct {
	Root  provider.ID
	Name  string
	Fits  int
	Lacks []resource.Class // sorted; of which one more server lacks some
}

// RunsOut is a class, and the number of hosts that lack it for one more server.
type RunsOut struct {
	Class resource.Class
	Hosts int
}

// Cloud is what a count depends on.
type Cloud struct {
	// Rows are the providers. They need the classes and traits that the request names only, and index.Sharing; more of
	// them make a count slower.
	Rows     []index.Row
	Partial  bool            // Rows are not all providers of the cloud
	Excluded map[string]bool // the names of hosts that are not counted
	Stop     func() bool     // ends a count; nil: never
}

// The limits of a count: candidates of all hosts together, steps of the search on one host without a candidate, and
// calls of the stop function of one search, each after at most 64 steps.
const (
	maxCandidates = 200_000
	treeSteps     = 20_000
	maxStops      = 20_000
)

// cloud is what a count of one request depends on.
type cloud struct {
	ask   resource.Ask
	hosts map[provider.ID]string // the names of the hosts that are counted, by their root provider
	rows  rows

	shared map[provider.ID]bool // roots of trees that share their inventory
	stop   func() bool          // ends a count; nil: never
}

// Count returns how many more servers with a request fit on the hosts of a cloud. When Stop returns true it ends soon;
// the result is not used then.
func (of Cloud) Count(ask resource.Ask) Result {
	r := Result{Exact: !of.Partial}
	c := of.with(ask)
	r.addRoom(c)
	r.addFull(c)
	slices.SortFunc(r.Hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(b.Fits, a.Fits), strings.Compare(a.Name, b.Name))
	})
	r.countClasses()
	switch {
	case c.stop != nil && c.stop():
	case r.Fits == 0 && r.Exact:
		r.Reason = c.why().Reason
	case r.Fits == 0:
		r.Reason = "not decided: the search reached its limit, or not all providers were read"
	}
	return r
}

// with returns the hosts of a cloud for a request, without those that are excluded.
func (of Cloud) with(ask resource.Ask) cloud {
	c := cloud{ask: ask, hosts: map[provider.ID]string{}, shared: map[provider.ID]bool{}, rows: newRows(of.Rows, ask),
		stop: of.Stop}
	for root, tree := range c.rows.byRoot {
		for _, p := range tree {
			switch {
			case p.Parent != "":
			case p.HasTrait(index.Sharing):
				c.shared[root] = true
			case !of.Excluded[p.Name]:
				c.hosts[root] = p.Name
			}
		}
	}
	return c
}

// used reports whether the tree of a root is part of the search.
func (c cloud) used(root provider.ID) bool { return c.hosts[root] != "" || c.shared[root] }

// why returns why the request has no candidate; the zero value if it has one.
func (c cloud) why() explain.Explanation {
	if len(c.hosts) == 0 {
		return explain.Explanation{Reason: "no host is in service"}
	}
	ended, stop := false, c.limited()
	e := explain.Why(index.Build(c.rows.plain(c.used)), c.ask, func() bool { ended = ended || stop(); return ended })
	if ended {
		return explain.Explanation{Reason: "the reason was not found within the limit of the search"}
	}
	return e
}

// Why returns why a request has no candidate on the hosts that are counted; the zero value if it has one.
func (of Cloud) Why(ask resource.Ask) explain.Explanation { return of.with(ask).why() }

// limited returns a stop function for searches.
func (c cloud) limited() func() bool {
	calls := 0
	return func() bool { calls++; return calls > maxStops || c.stop != nil && c.stop() }
}

// addRoom adds the hosts with room for at least one server.
func (r *Result) addRoom(c cloud) {
	ask := c.ask
	ask.Limit = maxCandidates
	in := count.Input{Groups: ask.Groups, Free: resource.Allocation{}, Stop: c.stop}
	users, snapshot := map[provider.ID]provider.ID{}, index.Build(c.rows.merged(c.used, false))
	stop := c.limited()
	options := candidate.Options{BreadthFirst: true, TreeSteps: treeSteps,
		Stop:      func() bool { ended := stop(); r.Exact = r.Exact && !ended; return ended },
		Undecided: func(*index.Tree, []string) { r.Exact = false }}
	for one := range candidate.Find(snapshot, ask, options) {
		if c.hosts[one.Root] == "" {
			continue // on shared storage alone
		}
		in.Candidates = append(in.Candidates, count.Candidate{Host: string(one.Root), Allocation: one.Allocation(),
			Mappings: one.Mappings()})
		for i := range one.Takes {
			take := &one.Takes[i]
			node := take.Node()
			r.Shared = r.Shared || users[node.ID] != "" && users[node.ID] != one.Root
			if users[node.ID] = one.Root; in.Free[node.ID] == nil {
				in.Free[node.ID] = resource.Amounts{}
			}
			for class := range take.Amounts {
				of := node.Inventory(snapshot.Class(class))
				in.Free[node.ID][class] = of.Inventory.Capacity() - of.Used
			}
		}
	}
	r.Exact = r.Exact && len(in.Candidates) < maxCandidates
	counted := count.Count(in)
	r.Fits, r.Exact = counted.Servers, r.Exact && counted.Servers == counted.AtMost
	for _, h := range counted.Hosts {
		r.Hosts = append(r.Hosts, Host{Root: provider.ID(h.Name), Name: c.hosts[provider.ID(h.Name)],
			Fits: h.Servers, Lacks: h.First})
	}
}

// addFull adds the hosts that have no room now and would have it without their servers. They lack the classes of which
// all their providers together have too little; none if what is free is on the wrong providers.
func (r *Result) addFull(c cloud) {
	has := map[string]bool{}
	for _, h := range r.Hosts {
		has[h.Name] = true
	}
	full := func(root provider.ID) bool { return c.used(root) && !has[c.hosts[root]] }
	query := match.Compile(index.Build(c.rows.merged(full, true)), c.ask)
	if query.Impossible != "" || len(query.Items) == 0 {
		return
	}
	stop := c.limited()
	solver := candidate.NewTreeSolver(query, stop)
	trees, _ := query.Trees()
	for t := range trees {
		if c.stop != nil && c.stop() {
			return
		}
		if c.hosts[t.Root] == "" || !solver.Solve(t) {
			continue
		}
		free := resource.Amounts{}
		for _, p := range c.rows.byRoot[t.Root] {
			for class, inventory := range p.Inventories {
				free[class] += max(inventory.Capacity()-p.Used[class], 0)
			}
		}
		host := Host{Root: t.Root, Name: c.hosts[t.Root]}
		for _, class := range c.rows.total.Sorted() {
			if left, offered := free[class]; offered && left < c.rows.total[class] {
				host.Lacks = append(host.Lacks, class)
			}
		}
		r.Hosts = append(r.Hosts, host)
	}
}

// countClasses counts the hosts by the classes that they lack.
func (r *Result) countClasses() {
	hosts := map[resource.Class]int{}
	for _, h := range r.Hosts {
		for _, class := range h.Lacks {
			hosts[class]++
		}
	}
	for class, n := range hosts {
		r.RunsOut = append(r.RunsOut, RunsOut{class, n})
	}
	slices.SortFunc(r.RunsOut, func(a, b RunsOut) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), strings.Compare(string(a.Class), string(b.Class)))
	})
}
