package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/headroom"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// headroomAsk is what each of the counted servers requests.
type headroomAsk struct {
	groups   []resource.Group
	requests []pci.Request // of the flavor and of the ports
	counted  bool          // Placement counts the devices of all requests
	stop     func() bool   // ends the count: its result is not used
}

// count counts the servers that fit, with the filters of the scheduler. If only Placement limits the number, the count
// is exact. If what the hosts have beside it decides too, such as NUMA nodes, the servers are placed one after the
// other, as the scheduler would place them.
func (a headroomAsk) count(input schedule.Input, free resource.Allocation) []HostHeadroom {
	good, refusals := schedule.Accepted(input, a.requests)
	refused := refusedHosts(input, good, refusals)
	if len(input.Cells) > 0 || !a.counted {
		input.Candidates = good
		return append(a.place(input, free), refused...)
	}
	in := headroom.Input{Groups: a.groups, Free: free, Stop: a.stop}
	for _, c := range good {
		in.Candidates = append(in.Candidates, headroom.Candidate{Host: string(c.Root), Allocation: c.Allocation,
			Mappings: c.Mappings})
	}
	var counted []HostHeadroom
	result := headroom.Count(in)
	for _, h := range result.Hosts {
		root := provider.ID(h.Name)
		counted = append(counted, HostHeadroom{Root: root, Name: input.Hosts[root].Name, Fits: h.Servers,
			Exact: result.Servers == result.AtMost, Lacks: h.First})
	}
	slices.SortStableFunc(counted, func(a, b HostHeadroom) int { return cmp.Compare(b.Fits, a.Fits) })
	return append(counted, refused...)
}

// refusedHosts returns the hosts all of whose candidates are refused, by name, each with the most frequent reason.
func refusedHosts(input schedule.Input, good []schedule.Candidate, refusals []schedule.Refusal) (hosts []HostHeadroom) {
	seen := map[provider.ID]bool{}
	for _, c := range good {
		seen[c.Root] = true
	}
	for _, c := range input.Candidates {
		if seen[c.Root] {
			continue
		}
		seen[c.Root] = true
		name := cmp.Or(input.Hosts[c.Root].Name, string(c.Root))
		hosts = append(hosts, HostHeadroom{Root: c.Root, Name: input.Hosts[c.Root].Name, Exact: true,
			Excluded: reasonOf(name, refusals)})
	}
	slices.SortFunc(hosts, func(a, b HostHeadroom) int { return strings.Compare(a.Name, b.Name) })
	return hosts
}

// reasonOf returns the most frequent reason of the refusals of one host.
func reasonOf(host string, refusals []schedule.Refusal) string {
	of := slices.DeleteFunc(slices.Clone(refusals), func(r schedule.Refusal) bool { return r.Host != host })
	if failures := schedule.FilterFailures(of); len(failures) > 0 {
		return failures[0].Reason
	}
	return ""
}

// placings is how many servers are placed for one count; a larger cloud is counted up to there.
const placings = 20_000

// place counts the servers of each host by placing them one after the other, with three orders of equal choices. The
// number is the least of the three; it is exact if they agree and no provider is shared between hosts.
func (a headroomAsk) place(input schedule.Input, free resource.Allocation) (hosts []HostHeadroom) {
	byHost := map[provider.ID][]schedule.Candidate{}
	users := map[provider.ID]provider.ID{} // the host that uses a provider
	shared := false
	var roots []provider.ID
	for _, c := range input.Candidates {
		if byHost[c.Root] == nil {
			roots = append(roots, c.Root)
		}
		byHost[c.Root] = append(byHost[c.Root], c)
		for id := range c.Allocation {
			shared = shared || users[id] != "" && users[id] != c.Root
			users[id] = c.Root
		}
	}
	left, budget := free.Clone(), max(placings/max(len(roots), 1), 1)
	for _, root := range roots {
		if a.stop() {
			return nil
		}
		one := input
		one.Candidates = byHost[root]
		var best HostHeadroom
		var after resource.Allocation
		for seed := range uint64(3) {
			h, rest := a.placeOn(one, root, left, seed, budget)
			h.Exact = h.Exact && (seed == 0 || h.Fits == best.Fits && best.Exact) && !shared
			if seed == 0 || h.Fits < best.Fits {
				best, after = h, rest
			} else {
				best.Exact = h.Exact
			}
		}
		hosts, left = append(hosts, best), after
	}
	slices.SortStableFunc(hosts, func(a, b HostHeadroom) int { return cmp.Compare(b.Fits, a.Fits) })
	return hosts
}

// placeOn places servers on one host until none fits. It returns what is left of free.
func (a headroomAsk) placeOn(input schedule.Input, root provider.ID, free resource.Allocation, seed uint64,
	budget int) (HostHeadroom, resource.Allocation) {
	host, all := input.Hosts[root], input.Candidates
	out, left := HostHeadroom{Root: root, Name: host.Name}, free.Clone()
	for ; out.Fits < budget && !a.stop(); out.Fits++ {
		input.Candidates = slices.DeleteFunc(slices.Clone(all), func(c schedule.Candidate) bool {
			return len(shortOf(c.Allocation, left)) > 0
		})
		if len(input.Candidates) == 0 {
			out.Exact, out.Lacks = true, leastShort(all, left)
			return out, left
		}
		input.Hosts = map[provider.ID]schedule.Host{root: host.WithFree()}
		choices, refusals := schedule.Choose(input, a.requests, seed)
		if len(choices) == 0 {
			if out.Exact, out.Refused = true, reasonOf(host.Name, refusals); out.Fits == 0 {
				out.Excluded = out.Refused
			}
			return out, left
		}
		for id, amounts := range choices[0].Allocation {
			for class, n := range amounts {
				left[id][class] -= n
			}
		}
		host = host.WithGuest(schedule.Guest{ID: fmt.Sprint("counted ", out.Fits), Cells: input.Cells,
			Requests: lifecycle.WithProviders(a.requests, choices[0].Mappings)})
	}
	return out, left
}

// shortOf returns the classes of an allocation for which there is not enough left, sorted.
func shortOf(a, left resource.Allocation) (classes []resource.Class) {
	for id, amounts := range a {
		for class, n := range amounts {
			if left[id][class] < n && !slices.Contains(classes, class) {
				classes = append(classes, class)
			}
		}
	}
	slices.Sort(classes)
	return classes
}

// leastShort returns the classes that the candidate with the fewest lacks.
func leastShort(all []schedule.Candidate, left resource.Allocation) (least []resource.Class) {
	for i, c := range all {
		if short := shortOf(c.Allocation, left); i == 0 || len(short) < len(least) {
			least = short
		}
	}
	return least
}
