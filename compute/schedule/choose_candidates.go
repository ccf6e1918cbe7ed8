package schedule

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidate is an allocation candidate of Placement: the allocation, and the providers of each request group.
type Candidate struct {
	Root       provider.ID // of the host; a candidate with sharing providers touches other trees too
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID // by the suffix of the group
}

// Input is the input of Choose, except the PCI requests and the seed.
type Input struct {
	Candidates []Candidate
	Hosts      map[provider.ID]Host // by root provider; candidates on other hosts are refused
	Cells      []numa.GuestCell     // the NUMA cells of a guest that must be placed; nil: none
	Placed     []numa.Placed        // where the cells of an existing guest are; nil: it has none, or does not exist
	// use NUMA nodes with guests first ([compute] packing_host_numa_cells_allocation_strategy)
	Pack          bool
	Only          string            // name of the only permitted host; empty: any
	Group         *ServerGroup      // of the server; nil: none
	Hints         *HostHints        // of the server; nil: none
	Demand        AggregateDemand   // of the aggregates of the host
	ExcludedHosts map[string]string // hosts by name that are not permitted, and why
	FailedHosts   map[string]string // hosts by name where the server failed, and why
	Lacking       map[string]bool   // hosts by name for which Placement lacks allocations of servers
	Unreliable    map[string]bool   // hosts by name on which a guest has just failed: they are chosen last
	Counted       map[string]bool   // requests by id whose devices Placement counts; only for plans
	Isolate       bool              // no two of these devices, or other groups, share a provider; only for plans
	Work          *int              // what all calls of PlanOn together may work, see plan.MakeWithin; nil: no limit

	work int // limit of one search
	// providers with bandwidth and those of their devices; nil: candidates are not rated by NICs
	NICs    map[provider.ID]NIC
	Now     time.Time
	Silence time.Duration // a host whose last report is older than this is refused
}

// Choice is an accepted candidate and its host.
type Choice struct {
	Host       string
	Root       provider.ID
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID
	Cells      []numa.CellChoice // for each NUMA cell of a planned server; nil: the agent chooses
	Zone       string            // availability zone of the host
}

// MaxChoices is the maximum number of choices. The first is claimed; the others are used if that claim is lost.
const MaxChoices = 16

// Choose filters the candidates and returns the accepted ones, best first and at most MaxChoices, and the refusals. The
// choices contain the best candidate of each host in the order of hosts, then the second of each, and so on, so that
// the loss of one host leaves other choices. requests are the server's PCI requests; those with groups in the
// candidates are judged on the chosen providers, the others on the whole host. Candidates do not affect each other.
func Choose(p Input, requests []pci.Request, seed uint64) ([]Choice, []Refusal) {
	rng := rand.New(rand.NewPCG(seed, seed))
	accepted := map[provider.ID][]Choice{}
	var roots []provider.ID // in order of appearance
	left := map[provider.ID]*remaining{}
	good, refusals := p.filter(requests, left)
	for _, c := range good {
		if len(accepted[c.Root]) == 0 {
			roots = append(roots, c.Root)
		}
		choice := Choice{Host: p.Hosts[c.Root].Name, Root: c.Root, Allocation: c.Allocation, Mappings: c.Mappings}
		choice.Zone = p.Demand.Aggregates.Zone(choice.Host)
		accepted[c.Root] = append(accepted[c.Root], choice)
	}
	for _, root := range roots {
		list := accepted[root]
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	p.sortHosts(roots, left, p.sortByNIC(accepted, p.distances(requests, left)), rng)
	return interleave(roots, accepted), refusals
}

// Accepted returns the candidates that all filters accept, in their order, and the refusals of the others.
func Accepted(p Input, requests []pci.Request) ([]Candidate, []Refusal) {
	return p.filter(requests, map[provider.ID]*remaining{})
}

// filter returns the accepted candidates and the refusals. It adds to left what the hosts have free.
func (p Input) filter(requests []pci.Request, left map[provider.ID]*remaining) (good []Candidate, refusals []Refusal) {
	for _, c := range p.Candidates {
		refusal := p.judge(c, requests, left)
		if refusal.Reason == "" {
			good = append(good, c)
			continue
		}
		refusal.Host = p.nameOf(c.Root)
		refusals = append(refusals, refusal)
	}
	return good, refusals
}

// nameOf returns the name of a host, or the id of its root provider.
func (p Input) nameOf(root provider.ID) string { return cmp.Or(p.Hosts[root].Name, string(root)) }

// remaining is what a host has free for any candidate.
type remaining struct {
	free   []pci.Offered
	room   numa.Host // only for servers with cells
	wasted int       // free devices that no request can use
}

// judge applies all filters to a candidate and returns the first refusal; its Reason is empty if all filters accept.
func (p Input) judge(c Candidate, requests []pci.Request, left map[provider.ID]*remaining) Refusal {
	host, reason := p.host(c)
	if reason != "" {
		return Refusal{Filter: FilterHost, Reason: reason}
	}
	if p.Lacking[host.Name] {
		return Refusal{Filter: FilterAllocations, Reason: LacksAllocations}
	}
	if refusal := p.refuseByGroups(host.Name); refusal.Reason != "" {
		return refusal
	}
	for _, r := range requests {
		for i := range r.Count {
			if n := len(c.Mappings[r.GroupSuffix(i)]); n > 1 {
				reason := "the candidate gives one device of " + r.Name() + " several providers"
				return Refusal{Filter: FilterDevices, Reason: reason}
			}
		}
	}
	if left[c.Root] == nil {
		left[c.Root] = p.remaining(host, requests)
	}
	rest, slots := left[c.Root], slotsOf(requests, c.Mappings)
	wanted := host.newDemand(slicesOnly(rest.free, c), slots)
	refusal := wanted.judgeDevices()
	switch {
	case refusal.Reason != "":
		return refusal
	case len(p.Placed) > 0:
		return refusalOf(wanted.checkNear(nodesOf(p.Placed)))
	case len(p.Cells) > 0:
		return wanted.judgeCells(rest.room, p.Cells)
	}
	return Refusal{}
}

// slicesOnly returns the free devices that a candidate of Placement may have chosen: it has one of the class for each
// device, so not the PFs that take several.
func slicesOnly(free []pci.Offered, c Candidate) []pci.Offered {
	whole := func(d pci.Offered) bool { return d.Amount() > 1 && c.Allocation[d.Provider] != nil }
	if !slices.ContainsFunc(free, whole) {
		return free
	}
	return slices.DeleteFunc(slices.Clone(free), whole)
}

// refuseByGroups returns why the server group, the hints or the aggregates of a host exclude it.
func (p Input) refuseByGroups(host string) Refusal {
	if filter, reason := p.Group.Refuse(host); reason != "" {
		return Refusal{Filter: filter, Reason: reason}
	}
	if filter, reason := p.Hints.Refuse(host); reason != "" {
		return Refusal{Filter: filter, Reason: reason}
	}
	return p.Demand.refuse(host)
}

// remaining returns what the host has free.
func (p Input) remaining(h Host, requests []pci.Request) *remaining {
	out := &remaining{free: h.Free()}
	if len(p.Cells) > 0 {
		out.room = h.Room(out.free, p.Pack)
	}
	anywhere := slotsOf(requests, nil)
	for i := range anywhere {
		anywhere[i].provider = ""
	}
	for _, d := range out.free {
		if !slices.ContainsFunc(anywhere, func(s slot) bool { return h.rank(d, s) >= 0 }) {
			out.wasted++
		}
	}
	return out
}

// host returns the host of a candidate and why no server can be placed there now; the reason is empty if it can.
func (p Input) host(c Candidate) (Host, string) {
	host, known := p.Hosts[c.Root]
	if !known {
		return Host{}, "no agent has reported for this root provider"
	}
	if p.Only != "" && host.Name != p.Only {
		return host, "host " + p.Only + " was requested"
	}
	if why, excluded := p.ExcludedHosts[host.Name]; excluded {
		return host, why
	}
	if why, tried := p.FailedHosts[host.Name]; tried {
		return host, "the server failed there before: " + why
	}
	if silent := p.Now.Sub(host.Seen); silent > p.Silence {
		return host, "its agent has not reported for " + roundedDuration(silent)
	}
	if host.NotFollowed != "" {
		return host, "its agent does not follow compute's assignments; see the conditions of the host"
	}
	if host.Down != "" {
		return host, "its hypervisor can build no guests: " + host.Down
	}
	return host, ""
}

// countedDevices is the number of devices from which on hosts are considered equal, as in Nova's PCIWeigher.
const countedDevices = 99

// sortHosts sorts hosts in place, the preferred one first: hosts on which no guest has just failed, as by Nova's
// BuildFailureWeigher; then by a soft policy of the server group, as by ServerGroupSoftAffinityWeigher; then by the
// number of free devices that the server cannot use, so that hosts with devices remain
// for servers that need them; then by the distance and the NICs of their best candidate; then by load in steps of 10 %;
// then at random.
func (p Input) sortHosts(roots []provider.ID, left map[provider.ID]*remaining, nics map[provider.ID]nicWeight,
	rng *rand.Rand) {
	rng.Shuffle(len(roots), func(i, j int) { roots[i], roots[j] = roots[j], roots[i] })
	slices.SortStableFunc(roots, func(a, b provider.ID) int {
		return cmp.Or(p.compareFailures(a, b),
			cmp.Compare(p.Group.rank(p.Hosts[a].Name), p.Group.rank(p.Hosts[b].Name)),
			cmp.Compare(min(left[a].wasted, countedDevices), min(left[b].wasted, countedDevices)),
			nics[a].compare(nics[b]), cmp.Compare(int(p.Hosts[a].Load*10), int(p.Hosts[b].Load*10)))
	})
}

// compareFailures orders hosts on which a guest has just failed after the others.
func (p Input) compareFailures(a, b provider.ID) int {
	first, second := p.Unreliable[p.Hosts[a].Name], p.Unreliable[p.Hosts[b].Name]
	switch {
	case first == second:
		return 0
	case first:
		return 1
	}
	return -1
}

// interleave returns the first choice of each host, then the second of each, up to MaxChoices.
func interleave(roots []provider.ID, accepted map[provider.ID][]Choice) []Choice {
	var out []Choice
	for round := 0; len(out) < MaxChoices; round++ {
		before := len(out)
		for _, root := range roots {
			if round < len(accepted[root]) && len(out) < MaxChoices {
				out = append(out, accepted[root][round])
			}
		}
		if len(out) == before {
			break
		}
	}
	return out
}
