package schedule

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// PlanHosts plans a server on every host of the input, by what the reports of the hosts and the servers placed there
// since leave free. It returns the hosts on which it fits, the preferred ones first, and why it does not fit on the
// others. The order is that of Choose; hosts whose devices are not to be kept for others come before those with less
// load, and equally good hosts are in random order. unsure are hosts that are refused,
// perhaps only because of traits that the report does not have and Placement may have.
func PlanHosts(p Input, requests []pci.Request, seed uint64) (roots, unsure []provider.ID, refusals []Refusal) {
	rng, question := rand.New(rand.NewPCG(seed, seed)), p.question(requests)
	ranked := make([]rankedHost, 0, len(p.Hosts))
	for _, root := range slices.Sorted(maps.Keys(p.Hosts)) {
		host, refusal := p.admits(root)
		if refusal.Reason == "" {
			answer := p.answer(host, requests, question)
			if answer.untraced {
				unsure = append(unsure, root)
			}
			if refusal = answer.refusal; refusal.Reason == "" {
				ranked = append(ranked, rankedHost{root: root, chance: rng.Uint64(),
					rank: [6]int{p.failures(host), p.Group.rank(host.Name), min(answer.unused, countedDevices),
						answer.far, answer.later, int(host.Load * 10)}})
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
	host, weight := p.Hosts[root], nicWeight{}
	for _, c := range p.Candidates {
		if c.Root != root {
			continue
		}
		made, refusal := p.planOn(host, requests, c.Mappings, tree.without(c.Allocation))
		if refusal.Reason != "" {
			refused = refusal
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
	return &Tree{Free: left, Traits: t.Traits}
}

// choice returns the candidate with the planned devices of aliases and the use of the cells added.
func (h hostPlan) choice(host Host, c Candidate, cells []numa.GuestCell) Choice {
	out := Choice{Host: host.Name, Root: c.Root, Allocation: c.Allocation.Clone(), Mappings: maps.Clone(c.Mappings)}
	for _, at := range h.Placed {
		out.Nodes = append(out.Nodes, at.Node)
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
