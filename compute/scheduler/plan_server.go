package scheduler

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// A server with NUMA cells or devices is planned on the hosts, by their reports. Placement is then asked for the rest
// of the server on the best host, and the planned devices are added to its answer. So it never enumerates equal
// devices, and a server is refused only if it fits nowhere. The answer has the amounts and traits of the whole tree:
// the plan is made again with these, because Placement may know of allocations that compute does not.

const (
	// askedAlone is the number of hosts that Placement is asked about one by one, before it is asked about all.
	askedAlone = 3
	// sampledHosts is the number of hosts among which the best one is looked for first, in a large cloud.
	sampledHosts = 64
	// spareChoices is the number of choices in a round after the first, when other servers have taken the choice before.
	spareChoices = 4
)

// serverPlan is the search of hosts for one server that is planned on them.
type serverPlan struct {
	Scheduler
	server   lifecycle.Server
	rest     resource.Ask // the request without the devices of aliases
	input    schedule.Input
	refusals []schedule.Refusal

	sampled    bool // the last search was among a sample of the hosts
	candidates int  // number of candidates that Placement returned
	audits     int  // number of hosts audited
	choices    []schedule.Choice
	wanted     int // number of choices
}

// planned reports whether a server is planned on the hosts: it has cells, or devices of aliases.
func planned(s lifecycle.Server, ask resource.Ask) bool {
	aliases := slices.ContainsFunc(s.Requests, func(r pci.Request) bool { return r.Port == nil })
	return (aliases || len(s.Topology) > 0) && len(withoutAliases(ask, s.Requests).Groups) > 0
}

// withoutAliases returns a request without the groups of the devices of aliases. If there is nothing left to isolate,
// it permits everything: InTree restricts it without excluding sharing providers then.
func withoutAliases(ask resource.Ask, requests []pci.Request) resource.Ask {
	alias := map[string]bool{}
	for _, r := range requests {
		for i := range r.Count {
			alias[r.GroupSuffix(i)] = r.Port == nil
		}
	}
	return without(ask, func(g resource.Group) bool { return alias[g.Suffix] })
}

// without returns a request without some of its groups.
func without(ask resource.Ask, drop func(resource.Group) bool) resource.Ask {
	ask.Groups = slices.DeleteFunc(slices.Clone(ask.Groups), drop)
	if ask.GroupPolicy == resource.PolicyIsolate && ask.Suffixed() < 2 {
		ask.GroupPolicy = resource.PolicyNone
	}
	return ask
}

// planServer chooses hosts for a server that is planned on them: the best of a sample, or if it fits on none of these,
// the best of all.
func (c Scheduler) planServer(ctx context.Context, s lifecycle.Server, ask resource.Ask) (lifecycle.Event, error) {
	p := &serverPlan{Scheduler: c, server: s, rest: withoutAliases(ask, s.Requests), wanted: 1}
	if s.Round > 0 {
		p.wanted = spareChoices
	}
	hosts, err := c.store.Roots(ctx)
	if err != nil {
		return nil, err
	}
	var event lifecycle.Event
	if len(hosts) > 2*sampledHosts && s.OnlyHost() == "" && !s.ServerGroup().RatesHosts() {
		event, err = p.search(ctx, ask, sample(hosts, seed(s)), false)
	}
	if err == nil && event == nil && len(p.choices) == 0 {
		event, err = p.search(ctx, ask, p.roots(hosts), true)
	}
	if err != nil || event != nil {
		return event, err
	}
	if undecided := schedule.Undecided(p.refusals); undecided > 0 && len(p.choices) == 0 {
		return c.notDecided(s, p.refusals)
	}
	why, failures := schedule.Summarise(p.refusals), schedule.FilterFailures(p.refusals)
	c.searches.decided(s)
	if len(p.choices) == 0 {
		return lifecycle.NoValidHost{Candidates: p.candidates, Reason: why, Again: p.candidates > 0,
			FilterFailures: failures, Search: p.result()}, nil
	}
	return lifecycle.Chosen{Choices: p.choices, Candidates: p.candidates, Refused: why, FilterFailures: failures,
		Search: p.result()}, nil
}

// result returns how many of the hosts that the last search began with each filter has left.
func (p *serverPlan) result() schedule.Search {
	hosts, accepted := "hosts", map[string]bool{}
	if p.sampled {
		hosts = "hosts, chosen at random"
	}
	for _, c := range p.choices {
		accepted[c.Host] = true
	}
	return schedule.SearchOf(hosts, len(p.input.Hosts), accepted, p.refusals)
}

// roots returns the roots of all hosts, or of the only one that the server may be placed on.
func (p *serverPlan) roots(hosts []schedule.HostRoot) (roots []provider.ID) {
	only := p.server.OnlyHost()
	for _, h := range hosts {
		if h.Root != "" && (only == "" || h.Name == only) {
			roots = append(roots, h.Root)
		}
	}
	return roots
}

// sample returns the roots of sampledHosts of the hosts, of which there are more, at random. Its cost does not grow
// with their number. Hosts without a root are left out.
func sample(hosts []schedule.HostRoot, seed uint64) []provider.ID {
	rng := rand.New(rand.NewPCG(seed, seed))
	some, taken := make([]provider.ID, 0, sampledHosts), make(map[int]bool, sampledHosts)
	for last := len(hosts) - sampledHosts; last < len(hosts); last++ { // Floyd's algorithm: each subset is as likely
		n := rng.IntN(last + 1)
		if taken[n] {
			n = last
		}
		taken[n] = true
		if root := hosts[n].Root; root != "" {
			some = append(some, root)
		}
	}
	return some
}

// search plans the server on hosts and adds choices. The event is that of a server that cannot be placed, if roots are
// all hosts.
func (p *serverPlan) search(ctx context.Context, ask resource.Ask, of []provider.ID, all bool) (lifecycle.Event,
	error) {
	p.sampled = !all
	if err := p.readHosts(ctx, ask, of); err != nil {
		return nil, err
	}
	roots, unsure, refusals := schedule.PlanHosts(p.input, p.server.Requests, seed(p.server))
	p.refusals = refusals
	undecided := schedule.Undecided(refusals) > 0
	if all && len(roots)+len(unsure) == 0 && !undecided {
		return p.refuse(ctx)
	}
	alone := min(len(roots), max(askedAlone, p.wanted))
	event, err := p.askEach(ctx, roots[:alone])
	if all && err == nil && event == nil && len(p.choices) == 0 {
		event, err = p.askAll(ctx, append(roots[alone:], unsure...))
	}
	if all && undecided && err == nil && event == nil && len(p.choices) == 0 {
		return p.searchLonger(ctx)
	}
	return event, err
}

// searchLonger plans the server again on hosts for which this takes long, and asks Placement about those on which it
// fits, until there is a choice. Such searches count like long queries.
func (p *serverPlan) searchLonger(ctx context.Context) (event lifecycle.Event, err error) {
	if !p.searches.enter(p.server.Project) {
		return nil, crowded()
	}
	defer p.searches.leave(p.server.Project)
	before := p.refusals
	p.refusals = nil // those of the hosts that Placement is asked about
	after := schedule.PlanLonger(p.input, p.server.Requests, before, func(root provider.ID) (done bool) {
		event, err = p.askEach(ctx, []provider.ID{root})
		return err != nil || event != nil || len(p.choices) > 0
	})
	p.refusals = append(after, p.refusals...)
	return event, err
}

// readHosts reads the hosts with these roots.
func (p *serverPlan) readHosts(ctx context.Context, ask resource.Ask, roots []provider.ID) (err error) {
	if p.input, err = p.inputOf(ctx, roots); err != nil {
		return err
	}
	p.input.Counted, p.input.Isolate = map[string]bool{}, ask.GroupPolicy == resource.PolicyIsolate
	for _, r := range p.server.Requests {
		p.input.Counted[r.ID] = slices.ContainsFunc(ask.Groups, func(g resource.Group) bool {
			return g.Suffix == r.GroupSuffix(0)
		})
	}
	return p.addServer(ctx, &p.input, p.server)
}

// askEach asks Placement about hosts one by one, until there are enough choices.
func (p *serverPlan) askEach(ctx context.Context, roots []provider.ID) (lifecycle.Event, error) {
	for _, root := range roots {
		got, event, err := p.ask(ctx, p.restOn(root).InTree(root))
		if err != nil || event != nil {
			return event, err
		}
		if len(got.Candidates) == 0 {
			p.refuseHost(root, schedule.FilterPlacement, got.why)
			continue
		}
		if done, err := p.choose(ctx, root, got); done || err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// askAll asks Placement about all hosts at once, and plans on those in roots. Hosts that its answer does not have,
// because it is cut, are asked about one by one.
func (p *serverPlan) askAll(ctx context.Context, roots []provider.ID) (lifecycle.Event, error) {
	if len(roots) <= askedAlone {
		return p.askEach(ctx, roots)
	}
	on, off := p.byForm(roots)
	event, err := p.askForm(ctx, on)
	if err == nil && event == nil && len(p.choices) < p.wanted {
		event, err = p.askForm(ctx, off)
	}
	return event, err
}

// byForm splits hosts by the form in which Placement has what cells use of their nodes.
func (p *serverPlan) byForm(roots []provider.ID) (onNodes, onRoot []provider.ID) {
	for _, root := range roots {
		if p.input.Hosts[root].NodesInPlacement {
			onNodes = append(onNodes, root)
		} else {
			onRoot = append(onRoot, root)
		}
	}
	return onNodes, onRoot
}

// restOn returns what Placement is asked for on a host, besides devices.
func (p *serverPlan) restOn(root provider.ID) resource.Ask {
	if len(p.server.Topology) > 0 && p.input.Hosts[root].NodesInPlacement {
		return schedule.WithoutDedicated(p.rest)
	}
	return p.rest
}

// askForm asks Placement about hosts of one form at once.
func (p *serverPlan) askForm(ctx context.Context, roots []provider.ID) (lifecycle.Event, error) {
	if len(roots) == 0 {
		return nil, nil
	}
	got, event, err := p.ask(ctx, p.restOn(roots[0]))
	if err != nil || event != nil {
		return event, err
	}
	var missing []provider.ID
	for _, root := range roots {
		if !slices.ContainsFunc(got.Candidates, func(c schedule.Candidate) bool { return c.Root == root }) {
			missing = append(missing, root)
			continue
		}
		if done, err := p.choose(ctx, root, got); done || err != nil {
			return nil, err
		}
	}
	if got.cut {
		return p.askEach(ctx, missing)
	}
	for _, root := range missing {
		p.refuseHost(root, schedule.FilterPlacement, got.why)
	}
	return nil, nil
}

// restAnswer is Placement's answer for a server without the devices of aliases.
type restAnswer struct {
	schedule.Input // with the candidates of the answer
	tree           schedule.Tree
	cut            bool            // hosts may have more candidates
	why            string          // why a host is not in it
	search         schedule.Search // without candidates: how many hosts each clause left
	portless       *portlessRest   // of the host, for headroom; nil: there are no more candidates, or no ports
}

// ask asks Placement for the rest of the server.
func (p *serverPlan) ask(ctx context.Context, ask resource.Ask) (out restAnswer, event lifecycle.Event, err error) {
	got, event, err := p.Scheduler.candidates(placement.WithWholeTrees(ctx), ask)
	if err != nil || event != nil {
		return out, event, err
	}
	p.candidates += len(got.List)
	out = p.with(got)
	out.cut = isCut(got, ask)
	out.why, out.search = whyEmpty(got, ask), searchOf(got.Why)
	return out, nil, nil
}

// with joins an answer of Placement with the hosts.
func (p *serverPlan) with(got placement.Candidates) (out restAnswer) {
	out.Input = p.input
	out.NICs = nicsOf(got.Summaries)
	for _, one := range got.List {
		out.Candidates = append(out.Candidates, schedule.Candidate{Root: hostOf(got, one, p.input.Hosts),
			Allocation: one.Allocation, Mappings: one.Mappings})
	}
	out.tree = schedule.Tree{Free: freeOf(got.Summaries), Traits: map[provider.ID][]resource.Trait{},
		Parents: map[provider.ID]provider.ID{}}
	for id, s := range got.Summaries {
		out.tree.Traits[id] = s.Traits
		if s.Parent != "" {
			out.tree.Parents[id] = s.Parent
		}
	}
	return out
}

// choose plans the server on a host again, with the answer of Placement, and adds the choice. It audits the host first
// if its last audit is not fresh: if allocations are missing in Placement, what it offers there may be in use. It
// reports whether there are enough choices.
func (p *serverPlan) choose(ctx context.Context, root provider.ID, got restAnswer) (done bool, err error) {
	host := p.input.Hosts[root]
	choice, refusal, err := p.planOn(ctx, root, got)
	if err != nil {
		return false, err
	}
	if refusal.Reason != "" {
		p.refusals = append(p.refusals, refusal)
		return false, nil
	}
	if _, fresh := p.options.Audits.Missing(host); !fresh {
		if p.audits++; p.audits > MaxAudited {
			return false, fault.New(fault.Unavailable,
				"Placement lacks allocations of servers on each of %d hosts; the next try audits the next hosts", MaxAudited)
		}
		missing, err := p.options.Audits.AuditRoot(ctx, host.Name, root)
		if err != nil {
			return false, err
		}
		if missing {
			p.refuseHost(root, schedule.FilterAllocations, schedule.LacksAllocations)
			return false, nil
		}
	}
	p.choices = append(p.choices, choice)
	return len(p.choices) >= p.wanted, nil
}

// planOn plans the server on a host with an answer of Placement. If the host may have more candidates, it searches for
// the ports itself; after the first round only if all candidates of the answer are refused, because a claim may fail by
// what an answer does not have, such as min_unit.
func (p *serverPlan) planOn(ctx context.Context, root provider.ID, got restAnswer) (choice schedule.Choice,
	refusal schedule.Refusal, err error) {
	if !got.cut || p.server.Round > 0 {
		choice, _, refusal = schedule.PlanOn(got.Input, root, p.server.Requests, got.tree)
		if !got.cut || refusal.Reason == "" {
			return choice, refusal, nil
		}
	}
	found, why, ports, err := p.planPorts(ctx, root, got)
	if err != nil || ports && !why.Undecided {
		return found, why, err
	}
	if p.server.Round == 0 {
		choice, _, refusal = schedule.PlanOn(got.Input, root, p.server.Requests, got.tree)
	}
	if refusal.Reason != "" && why.Undecided {
		refusal = why
	}
	return choice, refusal, nil
}

// planPorts asks Placement for the server without its ports on a host, and searches for these. ports is false if it has
// no ports with devices.
func (p *serverPlan) planPorts(ctx context.Context, root provider.ID, got restAnswer) (choice schedule.Choice,
	refusal schedule.Refusal, ports bool, err error) {
	rest, of := schedule.SplitPorts(p.restOn(root), p.server.Requests)
	if len(of.Groups) == 0 {
		return choice, refusal, false, nil
	}
	got.Candidates = []schedule.Candidate{{Root: root}}
	if len(rest.Groups) > 0 {
		answer, event, err := p.ask(ctx, rest.InTree(root))
		if err != nil || event != nil || len(answer.Candidates) == 0 {
			return choice, refusal, false, err
		}
		got = answer
	}
	choice, _, refusal = schedule.PlanPorts(got.Input, root, p.server.Requests, got.tree, of)
	return choice, refusal, true, nil
}

// refuseHost adds the refusal of a host.
func (p *serverPlan) refuseHost(root provider.ID, filter schedule.Filter, reason string) {
	p.refusals = append(p.refusals, schedule.Refusal{Host: p.input.Hosts[root].Name, Filter: filter, Reason: reason})
}

// refuse returns why a server fits nowhere by the reports of the hosts: the rest of it, which Placement is asked for, a
// class that no host has ever reported, or the refusals of the hosts.
func (p *serverPlan) refuse(ctx context.Context) (lifecycle.Event, error) {
	ask := p.rest
	on, off := p.byForm(slices.Collect(maps.Keys(p.input.Hosts)))
	if all := append(on, off...); len(all) > 0 {
		if ask = p.restOn(all[0]); p.server.OnlyHost() != "" {
			ask = ask.InTree(all[0])
		}
	}
	ask.Limit = 1
	got, event, err := p.ask(ctx, ask)
	if err != nil || event != nil {
		return event, err
	}
	if class := p.unknownClass(); class != "" {
		return p.onRequestRejected("No such resource class " + string(class))
	}
	if len(got.Candidates) == 0 {
		return lifecycle.NoValidHost{Reason: got.why, Search: got.search}, nil
	}
	why := schedule.Summarise(p.refusals)
	switch {
	case why != "":
	case p.server.OnlyHost() != "":
		why = "no agent has reported for host " + p.server.OnlyHost()
	default:
		why = "no agent of any host has reported"
	}
	return lifecycle.NoValidHost{Candidates: p.candidates, Reason: why,
		FilterFailures: schedule.FilterFailures(p.refusals), Search: p.result()}, nil
}

// offered reports whether some host has a device of the class, free or not.
func (p *serverPlan) offered(class resource.Class) bool {
	for _, h := range p.input.Hosts {
		if slices.ContainsFunc(h.Devices, func(d pci.Offered) bool { return d.ResourceClass == class }) {
			return true
		}
	}
	return false
}
