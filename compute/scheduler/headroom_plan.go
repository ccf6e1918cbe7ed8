package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// plannedHeadroom is Headroom for servers that are planned on the hosts: on each host they are planned one after the
// other, as the scheduler would, until one does not fit.
func (c Scheduler) plannedHeadroom(ctx context.Context, s lifecycle.Server, ask resource.Ask, known []schedule.Host) (
	hosts []HostHeadroom, reason string, err error) {
	p := &serverPlan{Scheduler: c, server: s, rest: withoutAliases(ask, s.Requests)}
	all, err := p.store.Roots(ctx)
	if err == nil {
		err = p.readHosts(ctx, ask, p.roots(all))
	}
	if err != nil {
		return nil, "", err
	}
	found, err := p.everyRest(ctx, known)
	if err != nil || len(found.List) == 0 {
		return found.undecided(nil, known), found.Reason, err
	}
	if class := p.unknownClass(); class != "" {
		return nil, whyUnknown(string(class)), nil
	}
	rest := p.with(found.Candidates)
	shared := sharedRoots(rest.Candidates)
	byHost := map[provider.ID][]schedule.Candidate{}
	for _, one := range rest.Candidates {
		byHost[one.Root] = append(byHost[one.Root], one)
	}
	portless, err := p.portlessRests(ctx, found.cut, byHost, known)
	if err != nil {
		return nil, "", err
	}
	budget, work := max(placings/max(len(byHost), 1), 1), schedule.HeadroomWork
	rest.Work = &work
	for _, one := range rest.Candidates {
		list := byHost[one.Root]
		if list == nil {
			continue // counted already
		}
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
		delete(byHost, one.Root)
		of := rest
		of.Candidates, of.portless = list, portless[one.Root]
		h := of.fill(one.Root, s, budget)
		h.Exact = h.Exact && !shared[one.Root] && !of.isCut(found.cut[one.Root])
		hosts = append(hosts, h)
	}
	slices.SortStableFunc(hosts, func(a, b HostHeadroom) int {
		return cmp.Or(cmp.Compare(min(len(a.Excluded), 1), min(len(b.Excluded), 1)), cmp.Compare(b.Fits, a.Fits),
			cmp.Compare(a.Name, b.Name))
	})
	return append(hosts, found.undecided(hosts, known)...), "", nil
}

// portlessRests returns what a server needs without the groups of its ports on the hosts for which an answer to the
// scheduler would be cut. found has their candidates; they may have more than these where cut is set.
func (p *serverPlan) portlessRests(ctx context.Context, cut map[provider.ID]bool,
	found map[provider.ID][]schedule.Candidate, known []schedule.Host) (map[provider.ID]*portlessRest, error) {
	rest, ports := schedule.SplitPorts(p.rest, p.server.Requests)
	out := map[provider.ID]*portlessRest{}
	for root, list := range found {
		if cut[root] || len(list) >= MaxCandidates {
			out[root] = &portlessRest{ports: ports}
			if len(rest.Groups) == 0 {
				out[root].candidates = []schedule.Candidate{{Root: root}}
			}
		}
	}
	if len(ports.Groups) == 0 || len(out) == 0 {
		return nil, nil
	}
	if len(rest.Groups) == 0 {
		return out, nil
	}
	of := *p
	of.rest = rest
	all, err := of.everyRest(ctx, known)
	for _, c := range p.with(all.Candidates).Candidates {
		if to := out[c.Root]; to != nil {
			to.candidates, to.cut = append(to.candidates, c), all.cut[c.Root]
		}
	}
	return out, err
}

// everyRest returns the candidates of all hosts for the server without devices. Reason is set if there are none.
func (p *serverPlan) everyRest(ctx context.Context, known []schedule.Host) (hostCandidates, error) {
	onNodes, onRoot := p.byForm(slices.Collect(maps.Keys(p.input.Hosts)))
	if len(onNodes) == 0 {
		return p.everyCandidate(placement.WithWholeTrees(ctx), p.rest, known)
	}
	all, err := p.everyOn(ctx, onNodes, known)
	if err != nil || len(onRoot) == 0 {
		return all, err
	}
	others, err := p.everyOn(ctx, onRoot, known)
	if err != nil {
		return others, err
	}
	maps.Copy(all.cut, others.cut)
	if len(all.List) == 0 {
		others.cut = all.cut
		return others, nil
	}
	all.List = append(all.List, others.List...)
	maps.Copy(all.Summaries, others.Summaries)
	return all, nil
}

// everyOn returns the candidates of hosts of one form.
func (p *serverPlan) everyOn(ctx context.Context, roots []provider.ID, known []schedule.Host) (hostCandidates, error) {
	of := slices.DeleteFunc(slices.Clone(known), func(h schedule.Host) bool { return !slices.Contains(roots, h.Provider) })
	all, err := p.everyCandidate(placement.WithWholeTrees(ctx), p.restOn(roots[0]), of)
	if all.cut == nil {
		all.cut = map[provider.ID]bool{}
	}
	all.List = slices.DeleteFunc(slices.Clone(all.List), func(one placement.Candidate) bool {
		return !slices.Contains(roots, hostOf(all.Candidates, one, p.input.Hosts))
	})
	return all, err
}

// sharedRoots returns the hosts whose candidates use a provider that those of another host use too.
func sharedRoots(candidates []schedule.Candidate) map[provider.ID]bool {
	users, shared := map[provider.ID]provider.ID{}, map[provider.ID]bool{}
	for _, c := range candidates {
		for id := range c.Allocation {
			if other := users[id]; other != "" && other != c.Root {
				shared[other], shared[c.Root] = true, true
			}
			users[id] = c.Root
		}
	}
	return shared
}

// portlessRest is what a server needs on a host without the groups of its ports, and these.
type portlessRest struct {
	candidates []schedule.Candidate
	cut        bool // there may be more candidates
	ports      resource.Ask
}

// isCut reports whether the host may have candidates that are not planned on; cut: besides those found.
func (a restAnswer) isCut(cut bool) bool {
	if a.portless != nil {
		return a.portless.cut
	}
	return cut
}

// fill plans servers on one host until none fits, and takes what they need from the tree.
func (a restAnswer) fill(root provider.ID, s lifecycle.Server, budget int) HostHeadroom {
	out := HostHeadroom{Root: root, Name: cmp.Or(a.Hosts[root].Name, string(root))}
	if refusal := schedule.Admits(a.Input, root); refusal.Reason != "" {
		out.Exact, out.Excluded = true, refusal.Reason
		return out
	}
	all := a.Candidates
	a.Hosts = map[provider.ID]schedule.Host{root: a.Hosts[root]}
	for ; out.Fits < budget; out.Fits++ {
		a.Candidates = a.fitting(all)
		if len(a.Candidates) == 0 && a.portless == nil {
			out.Exact, out.Lacks = true, leastShort(all, a.tree.Free)
			return out
		}
		choice, after, refusal := a.plan(root, s)
		if refusal.Reason != "" {
			if out.Exact, out.Refused = !refusal.Undecided, refusal.Reason; out.Fits == 0 {
				out.Excluded = out.Refused
			}
			if refusal.Class != "" {
				out.Lacks = []resource.Class{refusal.Class}
			}
			return out
		}
		a.Hosts[root] = after
		a.take(choice.Allocation)
	}
	return out
}

// take takes what a server needs from the tree and from the NICs, by which the next server is rated.
func (a restAnswer) take(allocation resource.Allocation) {
	for id, amounts := range allocation {
		for class, n := range amounts {
			a.tree.Free[id][class] -= n
			if room, has := a.NICs[id].Bandwidth[class]; has {
				room.Used += n
				a.NICs[id].Bandwidth[class] = room
			}
		}
	}
}

// fitting returns the candidates for which the tree has enough left.
func (a restAnswer) fitting(all []schedule.Candidate) []schedule.Candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c schedule.Candidate) bool {
		return len(shortOf(c.Allocation, a.tree.Free)) > 0
	})
}

// plan plans a server on a host as the scheduler does: if an answer of Placement would be cut, it searches for the
// ports.
func (a restAnswer) plan(root provider.ID, s lifecycle.Server) (schedule.Choice, schedule.Host, schedule.Refusal) {
	var undecided schedule.Refusal
	if a.portless != nil {
		of := a.Input
		of.Candidates = a.fitting(a.portless.candidates)
		choice, after, refusal := schedule.PlanPorts(of, root, s.Requests, a.tree, a.portless.ports)
		if !refusal.Undecided {
			return choice, after, refusal
		}
		undecided = refusal
	}
	choice, after, refusal := schedule.PlanOn(a.Input, root, s.Requests, a.tree)
	if refusal.Reason != "" && undecided.Undecided {
		refusal = undecided
	}
	return choice, after, refusal
}

// unknownClass returns a class of devices that Placement counts and no host has ever reported, or "".
func (p *serverPlan) unknownClass() resource.Class {
	for _, r := range p.server.Requests {
		if p.input.Counted[r.ID] && r.Port == nil && !p.offered(r.Requirement.Class) {
			return r.Requirement.Class
		}
	}
	return ""
}
