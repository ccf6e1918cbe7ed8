package schedule

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// PlanHosts plans a server on every host of the input, by what the reports of the hosts and the servers placed there
// since leave free. It returns the hosts on which it fits, the preferred ones first, and why it does not fit on the
// others. The order is that of Choose; hosts whose devices are not to be kept for others come before those with less
// load, and equally good hosts are in random order. unsure are hosts that are refused, perhaps only because of traits
// that the report does not have and Placement may have. The search on each host is short, see PlanLonger.
func PlanHosts(p Input, requests []pci.Request, seed uint64) (roots, unsure []provider.ID, refusals []Refusal) {
	rng, question := rand.New(rand.NewPCG(seed, seed)), p.question(requests)
	ranked, work := make([]rankedHost, 0, len(p.Hosts)), 0
	for _, root := range slices.Sorted(maps.Keys(p.Hosts)) {
		host, refusal := p.admits(root)
		if refusal.Reason == "" {
			if p.work = plan.QuickWork; work > allQuickWork {
				p.work = leastWork
			}
			answer := p.answer(host, requests, question)
			work += answer.work
			if answer.untraced {
				unsure = append(unsure, root)
			}
			if refusal = answer.refusal; refusal.Reason == "" {
				ranked = append(ranked, p.rank(root, host, answer, rng.Uint64()))
				continue
			}
		}
		refusal.Host = host.Name
		refusals = append(refusals, refusal)
	}
	slices.SortFunc(ranked, func(a, b rankedHost) int {
		return cmp.Or(slices.Compare(a.rank[:], b.rank[:]), cmp.Compare(a.chance, b.chance))
	})
	for _, host := range ranked {
		roots = append(roots, host.root)
	}
	return roots, unsure, refusals
}

// Limits of the work for one server on all hosts together, see plan.MakeWithin: half a second to two seconds each.
const (
	allQuickWork = 1 << 28 // beyond it the searches of PlanHosts are shorter
	allLongWork  = 1 << 29 // beyond it PlanLonger leaves hosts undecided

	// HeadroomWork is for Input.Work when servers are counted on all hosts: some seconds. Beyond it hosts are undecided
	// if a server is hard to plan there.
	HeadroomWork = 16 * plan.MaxWork

	leastWork = plan.QuickWork / 64 // of one search; most need less
)

// PlanLonger plans a server on those hosts again on which PlanHosts has not decided whether it fits, and calls try with
// each on which it fits, until try returns true. It returns the refusals of the hosts on which the server does not fit
// or that remain undecided, and the other ones.
func PlanLonger(p Input, requests []pci.Request, refusals []Refusal, try func(root provider.ID) (done bool)) []Refusal {
	roots, question, work := map[string]provider.ID{}, p.question(requests), 0
	for id, h := range p.Hosts {
		roots[h.Name] = id
	}
	p.work = plan.MaxWork
	var after []Refusal
	for i, r := range refusals {
		if !r.Undecided || work > allLongWork {
			after = append(after, r)
			continue
		}
		answer := p.answer(p.Hosts[roots[r.Host]], requests, question)
		work += answer.work
		if answer.refusal.Reason != "" {
			answer.refusal.Host = r.Host
			after = append(after, answer.refusal)
		} else if try(roots[r.Host]) {
			return append(after, refusals[i+1:]...)
		}
	}
	return after
}

// Undecided returns on how many hosts a search has reached its limit.
func Undecided(refusals []Refusal) (count int) {
	for _, r := range refusals {
		if r.Undecided {
			count++
		}
	}
	return count
}

// rank returns a host with the rank of a plan there.
func (p Input) rank(root provider.ID, h Host, of PlanAnswer, chance uint64) rankedHost {
	return rankedHost{root: root, chance: chance, rank: [6]int{p.failures(h), p.Group.rank(h.Name),
		min(of.unused, countedDevices), of.far, of.later, int(h.Load * 10)}}
}

// rankedHost is a host on which the server fits.
type rankedHost struct {
	root   provider.ID
	rank   [6]int // less is better, the first number decides
	chance uint64
}

// failures returns 1 for a host on which a guest has just failed, as by Nova's BuildFailureWeigher, else 0.
func (p Input) failures(h Host) int {
	if p.Unreliable[h.Name] {
		return 1
	}
	return 0
}

// Admits returns why no server can be placed on a host now, whatever it requests; its Reason is empty if one can.
func Admits(p Input, root provider.ID) Refusal {
	_, refusal := p.admits(root)
	return refusal
}

// admits returns a host, and why no server can be placed there now, whatever it requests.
func (p Input) admits(root provider.ID) (Host, Refusal) {
	host, reason := p.host(Candidate{Root: root})
	if reason != "" {
		return host, Refusal{Filter: FilterHost, Reason: reason}
	}
	if p.Lacking[host.Name] {
		return host, Refusal{Filter: FilterAllocations, Reason: LacksAllocations}
	}
	return host, p.refuseByGroups(host.Name)
}

// PlanOn plans a server on the host with this root provider. The candidates of the input are those for everything
// except the devices of aliases; tree is what Placement has there. It returns the best candidate with the planned
// devices added, and the host with the server on it; or why none fits.
func PlanOn(p Input, root provider.ID, requests []pci.Request, tree Tree) (best Choice, after Host, refused Refusal) {
	host, weight, left := p.Hosts[root], nicWeight{}, plan.MaxWork
	if p.Work != nil {
		left = min(left, *p.Work)
		defer func(before int) { *p.Work -= before - left }(left)
	}
	for _, c := range p.Candidates {
		if c.Root != root {
			continue
		}
		p.work = max(left, leastWork)
		made, refusal := p.planOn(host, requests, c.Mappings, tree.without(c.Allocation))
		left -= made.work
		if refusal.Reason != "" {
			if !refused.Undecided {
				refused = refusal
			}
			continue
		}
		of := p.nicWeight(c)
		of.distance = made.Far
		if best.Root == "" || of.compare(weight) < 0 {
			best, weight, after = made.choice(host, c, p.Cells), of, made.after(host, p.Cells)
		}
	}
	if best.Root != "" {
		best.Zone = p.Demand.Aggregates.Zone(best.Host)
		return best, after, Refusal{}
	}
	refused.Host = host.Name
	refused.Reason = cmp.Or(refused.Reason, "Placement has no candidate for the rest of the server")
	return Choice{}, host, refused
}

// after returns the host with the planned server on it.
func (h hostPlan) after(host Host, cells []numa.GuestCell) Host {
	taken := map[pci.Address]bool{}
	for _, d := range h.picked {
		taken[d.Address] = true
	}
	host.free, host.memory = removeTaken(host.Free(), func(d pci.Offered) bool { return taken[d.Address] }), nil
	if len(h.Placed) > 0 {
		host.Counted = append(slices.Clone(host.Counted), CountedGuest{Cells: cells, Placed: h.Placed})
	}
	return host
}

// without returns what is left of the tree after an allocation.
func (t Tree) without(a resource.Allocation) *Tree {
	left := t.Free.Clone()
	for id, amounts := range a {
		for class, n := range amounts {
			if left[id] != nil {
				left[id][class] -= n
			}
		}
	}
	return &Tree{Free: left, Traits: t.Traits, Parents: t.Parents}
}

// choice returns the candidate with the planned devices of aliases and the use of the cells added.
func (h hostPlan) choice(host Host, c Candidate, cells []numa.GuestCell) Choice {
	out := Choice{Host: host.Name, Root: c.Root, Allocation: c.Allocation.Clone(), Mappings: maps.Clone(c.Mappings)}
	for _, at := range h.Placed {
		out.Cells = append(out.Cells, numa.CellChoice{Node: at.Node, PageKB: at.PageKB})
	}
	place := map[string]int{} // by request: its next device
	for i, s := range h.slots {
		n := place[s.request.ID]
		place[s.request.ID]++
		if !s.counted || s.provider != "" {
			continue
		}
		on, amount := h.picked[i].Provider, h.picked[i].Amount()
		if out.Allocation[on] == nil {
			out.Allocation[on] = resource.Amounts{}
		}
		out.Allocation[on][s.request.Requirement.Class] += amount
		out.Mappings[s.request.GroupSuffix(n)] = []provider.ID{on}
	}
	if host.NodesInPlacement && len(h.Placed) > 0 {
		out.Allocation = host.onNodes(out.Allocation, cells, h.Placed)
	}
	return out
}
