package schedule

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// MaxChoices is how many choices are returned at most: the first to be claimed, the others for when that claim is lost.
const MaxChoices = 16

// Choose judges every candidate on its host and returns those that stand, best first, at most MaxChoices: the best candidate
// of each host in the order of hosts, then the second of each, and so on, so that one lost host does not lose all choices.
// requests are the server's PCI requests; those that have groups in the candidates are judged on the chosen providers
// alone, the others on the whole host. Every candidate is judged against the whole picture: none uses up what another sees.
func Choose(p Input, requests []pci.Request, seed uint64) ([]Choice, []Refusal) {
	rng := rand.New(rand.NewPCG(seed, seed))
	standing := map[provider.ID][]Choice{}
	var roots []provider.ID // in order of appearance
	var refusals []Refusal
	left := map[provider.ID]*leftover{}
	for _, c := range p.Candidates {
		host := p.Hosts[c.Root]
		if refusal := p.judge(c, requests, left); refusal.Reason != "" {
			refusal.Host = cmp.Or(host.Name, string(c.Root))
			refusals = append(refusals, refusal)
			continue
		}
		if len(standing[c.Root]) == 0 {
			roots = append(roots, c.Root)
		}
		standing[c.Root] = append(standing[c.Root], Choice{Host: host.Name, Root: c.Root, Allocation: c.Allocation, Mappings: c.Mappings})
	}
	for _, root := range roots {
		list := standing[root]
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	p.order(roots, left, rng)
	return interleave(roots, standing), refusals
}

// leftover is what a host has left for any candidate.
type leftover struct {
	free   []Device
	room   numa.Host
	wasted int // free devices that no request is for
}

// judge takes a candidate through all filters.
func (p Input) judge(c Candidate, requests []pci.Request, left map[provider.ID]*leftover) Refusal {
	host, reason := p.host(c)
	if reason != "" {
		return Refusal{Filter: FilterHost, Reason: reason}
	}
	if p.Lacking[host.Name] {
		return Refusal{Filter: FilterAllocations, Reason: LacksAllocations}
	}
	for _, r := range requests {
		for i := range r.Count {
			if n := len(c.Mappings[r.GroupSuffix(i)]); n > 1 {
				return Refusal{Filter: FilterDevices, Reason: "the candidate gives one device of alias " + r.Alias + " several providers"}
			}
		}
	}
	if left[c.Root] == nil {
		left[c.Root] = p.leftover(host, requests)
	}
	rest, slots := left[c.Root], slotsOf(requests, c.Mappings)
	bid := host.bid(rest.free, slots)
	if refusal := bid.judgeDevices(); refusal.Reason != "" || len(p.Cells) == 0 {
		return refusal
	}
	return bid.judgeCells(rest.room, p.Cells)
}

func (p Input) leftover(h Host, requests []pci.Request) *leftover {
	out := &leftover{free: h.Free()}
	out.room = h.Room(out.free, p.Pack)
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

// host finds the host of a candidate, and the sentence why nothing can be put there now, if there is one.
func (p Input) host(c Candidate) (Host, string) {
	host, known := p.Hosts[c.Root]
	if !known {
		return Host{}, "no agent has reported for this root provider"
	}
	if p.Only != "" && host.Name != p.Only {
		return host, "host " + p.Only + " was asked for"
	}
	if why, barred := p.ExcludedHosts[host.Name]; barred {
		return host, why
	}
	if why, tried := p.FailedHosts[host.Name]; tried {
		return host, "the server failed there before: " + why
	}
	if silent := p.Now.Sub(host.Seen); silent > p.Silence {
		return host, "its agent has not reported for " + roughly(silent)
	}
	if host.Behind != "" {
		return host, "its agent does not follow compute's assignments; see the conditions of the host"
	}
	return host, ""
}

// countedDevices is up to how many devices hosts are told apart, as Nova's PCIWeigher does.
const countedDevices = 99

// order sorts hosts. A server goes where the fewest devices are left that it has no use for, so that hosts with devices are kept for
// those who need them; then the emptier host comes first, in tenths; what is still equal, chance decides.
func (p Input) order(roots []provider.ID, left map[provider.ID]*leftover, rng *rand.Rand) {
	rng.Shuffle(len(roots), func(i, j int) { roots[i], roots[j] = roots[j], roots[i] })
	slices.SortStableFunc(roots, func(a, b provider.ID) int {
		return cmp.Or(cmp.Compare(min(left[a].wasted, countedDevices), min(left[b].wasted, countedDevices)),
			cmp.Compare(int(p.Hosts[a].Load*10), int(p.Hosts[b].Load*10)))
	})
}

// interleave takes the first of each host, then the second of each, up to MaxChoices.
func interleave(roots []provider.ID, standing map[provider.ID][]Choice) []Choice {
	var out []Choice
	for round := 0; len(out) < MaxChoices; round++ {
		before := len(out)
		for _, root := range roots {
			if round < len(standing[root]) && len(out) < MaxChoices {
				out = append(out, standing[root][round])
			}
		}
		if len(out) == before {
			break
		}
	}
	return out
}
