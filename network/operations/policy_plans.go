package operations

import (
	"context"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/resource"
)

// plan collects the change of the allocations of one or several consumers.
type plan struct {
	s       *Service
	agents  map[string][]binding.Agent // by host
	now     map[string]placement.ConsumerAllocation
	diff    map[string]map[string]map[resource.Class]int // by consumer and provider
	ports   []store.Port
	removed []string
}

func (s *Service) newPlan() *plan {
	return &plan{s: s, agents: map[string][]binding.Agent{}, now: map[string]placement.ConsumerAllocation{},
		diff: map[string]map[string]map[resource.Class]int{}}
}

// planPortPolicy returns the change of allocations for an update of a port; nil if none is needed.
func (s *Service) planPortPolicy(ctx context.Context, before, after store.Port) (*store.Change, error) {
	if before.Policy == after.Policy || before.Binding.Host != after.Binding.Host {
		return nil, nil // a new binding comes with a new allocation
	}
	n, err := Get[store.Network](ctx, s, before.Network)
	if err != nil {
		return nil, err
	}
	p := s.newPlan()
	changed, err := p.addPort(ctx, before, n, qos.Effective(before.Policy, n.Policy), qos.Effective(after.Policy,
		n.Policy))
	if err != nil || !changed {
		return nil, err
	}
	return p.change(ctx)
}

// planNetworkPolicy returns the change of allocations for an update of a network; nil if none is needed. seen has the
// revisions of the ports that get their policy from the network.
func (s *Service) planNetworkPolicy(ctx context.Context, before, after store.Network) (c *store.Change,
	seen map[string]int, err error) {
	if before.Policy == after.Policy {
		return nil, nil, nil
	}
	ports, err := List[store.Port](ctx, s, store.Filter{Networks: []string{before.ID}})
	if err != nil {
		return nil, nil, err
	}
	p, any := s.newPlan(), false
	seen = map[string]int{}
	for _, port := range ports {
		if port.Policy != "" {
			continue
		}
		seen[port.ID] = port.Number
		changed, err := p.addPort(ctx, port, before, before.Policy, after.Policy)
		if err != nil {
			return nil, nil, err
		}
		any = any || changed
	}
	if !any {
		return nil, seen, nil
	}
	c, err = p.change(ctx)
	return c, seen, err
}

// planRelease returns the change that releases what Placement has recorded for a port; nil if there is nothing.
func (s *Service) planRelease(ctx context.Context, port store.Port) (*store.Change, error) {
	if port.Device == "" || s.Placement == nil || len(allSharesOf(port)) == 0 {
		return nil, nil
	}
	c, _ := binding.ForPolicy(allSharesOf(port), nil)
	p := s.newPlan()
	now, err := p.allocation(ctx, port.Device)
	if err != nil {
		return nil, err
	}
	for provider, classes := range c.Diff { // another client may have released it already
		for class, n := range classes {
			classes[class] = max(n, -now.Allocation[resource.ProviderID(provider)][class])
			if classes[class] == 0 {
				delete(classes, class)
			}
		}
		if len(classes) == 0 {
			delete(c.Diff, provider)
		}
	}
	if len(c.Diff) == 0 {
		return nil, nil
	}
	p.diff[port.Device], p.removed = c.Diff, []string{port.ID}
	return p.change(ctx)
}

// allocation reads the allocation of a consumer, once for a plan.
func (p *plan) allocation(ctx context.Context, consumer string) (placement.ConsumerAllocation, error) {
	if now, ok := p.now[consumer]; ok {
		return now, nil
	}
	now, err := p.s.Placement.Allocation(ctx, resource.ConsumerID(consumer))
	if err == nil {
		p.now[consumer] = now
	}
	return now, fromPlacement(err)
}

// addPort adds the change of a port's effective policy. It reports whether the port changes: only a port that is bound
// for a server, and only if one of the policies has a guarantee.
func (p *plan) addPort(ctx context.Context, port store.Port, n store.Network, from, to string) (bool, error) {
	if from == to || !isServerPort(port) || port.Binding.Host == "" || p.s.Placement == nil {
		return false, nil
	}
	groups, err := p.groups(ctx, port, n, to)
	if err != nil {
		return false, err
	}
	if len(groups) == 0 && len(port.Allocated) == 0 {
		return false, nil
	}
	if slices.ContainsFunc(port.Inactive, func(b store.InactiveBinding) bool { return len(b.Allocated) > 0 }) {
		return false, conflict(placementConflict, "the policy of port %s cannot change while its server migrates; try again "+
			"when the migration has ended", port.ID)
	}
	c, refusal := binding.ForPolicy(sharesOf(port.Allocated), groups)
	if refusal != "" {
		return false, fault.New(fault.Conflict, "%s", refusal).WithCode(PolicyRefused)
	}
	now, err := p.allocation(ctx, port.Device)
	if err != nil {
		return false, err
	}
	if len(now.Allocation) == 0 {
		for _, share := range port.Allocated {
			if err := p.checkNotMoving(ctx, port.Device, share.Provider); err != nil {
				return false, err
			}
		}
		if len(port.Allocated) > 0 {
			return false, fault.New(fault.Invalid, "server %s has no allocations in Placement, so those of port %s cannot "+
				"change; run `berth heal ports`", port.Device, port.ID).WithCode("PlacementAllocationRemoved")
		}
		p.s.Log.Warn("policy applied without allocation: the server has none", "port", port.ID, "server", port.Device)
		return false, nil
	}
	if err := p.place(ctx, port, n, &c); err != nil {
		return false, err
	}
	p.add(port.Device, c.Diff)
	port.Allocated = map[string]store.Allocation{}
	for id, share := range c.Allocated {
		port.Allocated[id] = store.Allocation{Provider: share.Provider, Amounts: amountsOut(share.Amounts)}
	}
	p.ports = append(p.ports, port)
	return true, nil
}

// groups returns the request groups of a port with its new policy, and reads the agents of its host.
func (p *plan) groups(ctx context.Context, port store.Port, n store.Network,
	to string) (groups []qos.Group, err error) {
	err = p.s.Store.Read(ctx, func(tx *store.Tx) error {
		if groups, err = groupsOf(ctx, tx, port, n, to); err != nil {
			return err
		}
		if _, ok := p.agents[port.Binding.Host]; !ok {
			p.agents[port.Binding.Host], err = agentsOf(ctx, tx, p.s, port.Binding.Host)
		}
		for i := range p.agents[port.Binding.Host] { // the port is bound: what the agent would bind now does not matter
			a := &p.agents[port.Binding.Host][i]
			a.Silent, a.VNICTypes = false, nil
		}
		return err
	})
	return groups, err
}

// place selects providers for the groups of a change that have none: candidates in the tree of the host whose providers
// belong to the agent that has bound the port.
func (p *plan) place(ctx context.Context, port store.Port, n store.Network, c *binding.Change) error {
	groups := slices.DeleteFunc(slices.Clone(c.Place), func(g qos.Group) bool { return !requests(g) })
	if len(groups) == 0 {
		return nil
	}
	near := p.providerOf(port)
	if near == "" {
		p.s.Log.Warn("policy applied without allocation: the agent of the port reports no provider", "port", port.ID,
			"host", port.Binding.Host)
		return nil
	}
	found, err := p.s.Placement.Candidates(placement.ForProject(ctx, port.Project), placementAsk(groups, near))
	if err != nil {
		return fromPlacement(err)
	}
	if err := p.checkOnHost(port, found); err != nil {
		return err
	}
	for _, candidate := range found.List {
		allocation := map[string]string{}
		for id, share := range c.Allocated {
			allocation[id] = share.Provider
		}
		for _, g := range groups {
			if of := candidate.Mappings[g.ID]; len(of) == 1 {
				allocation[g.ID] = string(of[0])
			}
		}
		bound, refusal := binding.Bind(bindingPort(port, n, allocation), p.agents[port.Binding.Host])
		if refusal != "" || string(bound.Agent) != port.Binding.Agent || bound.Segment != port.Binding.Segment {
			continue
		}
		for _, g := range groups {
			c.Placed(g, allocation[g.ID])
		}
		return nil
	}
	return conflict(placementConflict,
		"host %s has no room for the new policy of port %s: %d candidates of Placement, none "+
			"with providers of the %s; choose a smaller policy, or migrate the server", port.Binding.Host, port.ID,
		len(found.List), port.Binding.Agent)
}

// placementConflict is Neutron's code for an allocation that Placement refuses.
const placementConflict = "QosPlacementAllocationUpdateConflict"

// requests reports whether a group requests an amount.
func requests(g qos.Group) bool {
	for _, n := range g.Resources {
		if n > 0 {
			return true
		}
	}
	return false
}

// providerOf returns a provider of the agent that has bound a port; empty if it has reported none.
func (p *plan) providerOf(port store.Port) string {
	for _, a := range p.agents[port.Binding.Host] {
		if a.Type != bandwidth.AgentType(port.Binding.Agent) {
			continue
		}
		if a.Provider != "" {
			return a.Provider
		}
		for _, d := range a.Devices {
			if d.Provider != "" {
				return d.Provider
			}
		}
	}
	return ""
}

// placementAsk returns the query for groups in the tree of a provider.
func placementAsk(groups []qos.Group, near string) resource.Ask {
	ask := resource.Ask{Limit: 100}
	var suffixes []string
	for _, g := range groups {
		one := resource.Group{Suffix: g.ID, Resources: resource.Amounts{}, InTree: resource.ProviderID(near)}
		for class, n := range g.Resources {
			if n > 0 {
				one.Resources[class] = n
			}
		}
		for _, t := range g.Required {
			one.Required = append(one.Required, []resource.Trait{t})
		}
		if len(g.AnyOf) > 0 {
			one.Required = append(one.Required, g.AnyOf)
		}
		ask.Groups, suffixes = append(ask.Groups, one), append(suffixes, g.ID)
	}
	if len(groups) > 1 {
		ask.GroupPolicy, ask.SameSubtree = resource.PolicyNone, [][]string{suffixes}
	}
	return ask
}

// add adds a difference to the allocation of a consumer.
func (p *plan) add(consumer string, diff map[string]map[resource.Class]int) {
	all := p.diff[consumer]
	if all == nil {
		all = map[string]map[resource.Class]int{}
		p.diff[consumer] = all
	}
	for provider, classes := range diff {
		if all[provider] == nil {
			all[provider] = map[resource.Class]int{}
		}
		for class, n := range classes {
			all[provider][class] += n
		}
	}
}
