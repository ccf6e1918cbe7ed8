package schedule

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// MaxChoices is how many choices are returned at most: the first to be claimed, the others for when that claim is lost.
const MaxChoices = 16

// Choose judges every candidate on its host and returns those that stand, best first, at most MaxChoices: the best candidate
// of each host in the order of hosts, then the second of each, and so on, so that one lost host does not lose all choices.
// requests are the server's PCI requests; those that have groups in the candidates are judged on the chosen providers
// alone, the others on the whole host. Every candidate is judged against the whole picture: none uses up what another sees.
func Choose(p Picture, requests []pci.Request, seed uint64) ([]Choice, []Refusal) {
	rng := rand.New(rand.NewPCG(seed, seed))
	standing := map[provider.ID][]Choice{}
	var roots []provider.ID // in order of appearance
	var refusals []Refusal
	free := map[provider.ID][]Device{}
	for _, c := range p.Candidates {
		host, reason := p.host(c)
		if reason == "" {
			if _, counted := free[c.Root]; !counted {
				free[c.Root] = host.Free()
			}
			reason = refuseDevices(free[c.Root], requests, c.Mappings)
		}
		if reason != "" {
			refusals = append(refusals, Refusal{Host: cmp.Or(host.Name, string(c.Root)), Reason: reason})
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
	order(roots, p.Hosts, free, len(requests) > 0, rng)
	return interleave(roots, standing), refusals
}

// host finds the host of a candidate, and the sentence why nothing can be put there now, if there is one.
func (p Picture) host(c Candidate) (Host, string) {
	host, known := p.Hosts[c.Root]
	if !known {
		return Host{}, "no agent has reported for this root provider"
	}
	if why, tried := p.Excluded[host.Name]; tried {
		return host, "the server failed there before: " + why
	}
	if silent := p.Now.Sub(host.Seen); silent > p.Silence {
		return host, "its agent has not reported for " + roughly(silent)
	}
	return host, ""
}

// order sorts hosts. A server without devices goes where the fewest devices are left, so that hosts with devices are kept for
// those who need them; then the emptier host comes first, in tenths; what is still equal, chance decides.
func order(roots []provider.ID, hosts map[provider.ID]Host, free map[provider.ID][]Device, devices bool, rng *rand.Rand) {
	rng.Shuffle(len(roots), func(i, j int) { roots[i], roots[j] = roots[j], roots[i] })
	slices.SortStableFunc(roots, func(a, b provider.ID) int {
		left := 0
		if !devices {
			left = cmp.Compare(len(free[a]), len(free[b]))
		}
		return cmp.Or(left, cmp.Compare(int(hosts[a].Load*10), int(hosts[b].Load*10)))
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
