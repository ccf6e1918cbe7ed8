// Package headroom computes how many more servers of one kind fit, and which resource runs out first.
//
// The input is Placement's complete list of candidates for one such server, and what their providers have free. A claim
// only reduces what is free, so each later server has one of these candidates too: the answer is the largest number of
// candidates, each any number of times, that fit together.
package headroom

import (
	"cmp"
	"maps"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidate is an allocation candidate of Placement on a host.
type Candidate struct {
	Host       string
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID // by the suffix of the request group
}

// Input is what Count depends on.
type Input struct {
	Groups     []resource.Group // of the request
	Candidates []Candidate      // all
	Free       resource.Allocation
	Stop       func() bool // ends the count: its result is not used; nil: never
}

// Result is how many servers fit. AtMost is larger than Servers if the search reached its limit.
type Result struct {
	Servers, AtMost int
	Hosts           []Host  // by name
	Classes         []Class // by name
}

// Host is a host on which at least one server fits.
type Host struct {
	Name    string
	Servers int
	// First are the classes that run out first: with unlimited amounts of all other classes no more servers would fit.
	// Empty: the classes are free on different providers, so fewer servers fit than any class allows alone.
	First []resource.Class
}

// with returns the host with the servers of one more part of it, whose providers no other part uses. What runs out
// first on the host is what does so in all of its parts.
func (h Host) with(name string, servers int, first []resource.Class) Host {
	if h.Name == "" {
		return Host{name, servers, first}
	}
	h.Servers += servers
	h.First = slices.DeleteFunc(slices.Clone(h.First), func(c resource.Class) bool { return !slices.Contains(first, c) })
	return h
}

// Class is a resource class of the request.
type Class struct {
	Name  resource.Class
	Alone int // servers that would fit with unlimited amounts of all other classes
	Hosts int // hosts where it runs out first
}

// Count returns how many more servers fit; nothing if in.Stop ends it.
func Count(in Input) Result {
	var r Result
	classes := map[resource.Class]*Class{}
	for _, name := range in.classes() {
		classes[name] = &Class{Name: name}
	}
	parts := in.parts()
	work := max(maxWork/max(len(parts), 1), minWork)
	names := slices.Sorted(maps.Keys(classes))
	hosts := map[string]Host{}
	for _, part := range parts {
		if in.Stop != nil && in.Stop() {
			return Result{}
		}
		all := in.solve(part, "", work)
		r.Servers, r.AtMost = r.Servers+all.servers, r.AtMost+all.atMost
		var first []resource.Class
		least := -1
		for _, name := range names {
			alone := in.solve(part, name, work)
			classes[name].Alone += alone.servers
			if least < 0 || alone.servers < least {
				first, least = nil, alone.servers
			}
			if alone.servers == least {
				first = append(first, name)
			}
		}
		if all.servers < least {
			first = nil
		}
		for host, servers := range all.byHost {
			hosts[host] = hosts[host].with(host, servers, first)
		}
	}
	for _, host := range hosts {
		r.Hosts = append(r.Hosts, host)
		for _, name := range host.First {
			classes[name].Hosts++
		}
	}
	slices.SortFunc(r.Hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	for _, name := range names {
		r.Classes = append(r.Classes, *classes[name])
	}
	return r
}

// solve returns the largest number of servers on a part, with all classes or with only one. With only one class, byHost
// may name one of several hosts.
func (in Input) solve(part []Candidate, only resource.Class, work int) solution {
	if len(part) > 1 && (only == "" || !sameUse(part, only)) {
		return newProblem(part, in, only, work).solve()
	}
	most := -1
	for id, amounts := range part[0].Allocation {
		for class, n := range amounts {
			if fits := max(in.Free[id][class], 0) / n; (only == "" || class == only) && (most < 0 || fits < most) {
				most = fits
			}
		}
	}
	most = max(most, 0)
	return solution{most, most, map[string]int{part[0].Host: most}}
}

// classes returns the classes of the request, sorted.
func (in Input) classes() []resource.Class { return resource.Ask{Groups: in.Groups}.Total().Sorted() }

// parts returns the candidates in sets that have no provider in common: one set for each host, unless hosts have
// sharing providers.
func (in Input) parts() [][]Candidate {
	leader := map[provider.ID]provider.ID{}
	find := func(id provider.ID) provider.ID {
		for leader[id] != "" {
			id = leader[id]
		}
		return id
	}
	for _, c := range in.Candidates {
		ids := slices.Sorted(maps.Keys(c.Allocation))
		for _, id := range ids {
			if a, b := find(ids[0]), find(id); a != b {
				leader[b] = a
			}
		}
	}
	index, parts := map[provider.ID]int{}, [][]Candidate(nil)
	for _, c := range in.Candidates {
		for id := range c.Allocation {
			top := find(id)
			at, known := index[top]
			if !known {
				at = len(parts)
				index[top], parts = at, append(parts, nil)
			}
			parts[at] = append(parts[at], c)
			break
		}
	}
	return parts
}

// sameUse reports whether all candidates take the same of a class from the same providers.
func sameUse(part []Candidate, class resource.Class) bool {
	takes := 0
	for _, amounts := range part[0].Allocation {
		takes += min(amounts[class], 1)
	}
	for _, c := range part[1:] {
		same := 0
		for id, amounts := range c.Allocation {
			if n := amounts[class]; n > 0 && n == part[0].Allocation[id][class] {
				same++
			} else if n > 0 {
				return false
			}
		}
		if same != takes {
			return false
		}
	}
	return true
}
