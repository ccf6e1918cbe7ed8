package operations

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/resource"
)

// The statuses of ports.
const (
	active = "ACTIVE"
	down   = "DOWN"
)

// bind selects the agent for a port and sets the result of its binding.
func (s *Service) bind(ctx context.Context, tx *store.Tx, p *store.Port, n store.Network) error {
	b := &p.Binding
	b.Agent, b.Segment, b.Bridge, b.Reason, b.VIF, p.Status = "", "", "", "", binding.Unbound, down
	groups, err := groupsOf(ctx, tx, *p, n, qos.Effective(p.Policy, n.Policy))
	if err != nil {
		return err
	}
	allocation := allocationOf(b.Profile, groups)
	p.Allocated = allocated(allocation, groups)
	dropInactive(p, b.Host)
	if b.Host == "" {
		return nil
	}
	agents, err := agentsOf(ctx, tx, s, b.Host)
	if err != nil {
		return err
	}
	port := bindingPort(*p, n, allocation)
	if port.Filtered, err = hasOwnGroups(ctx, tx, *p); err != nil {
		return err
	}
	bound, refusal := binding.Bind(port, agents)
	if refusal != "" {
		b.VIF, b.Reason = binding.Failed, refusal
		s.Log.Warn("port not bound", "port", p.ID, "host", b.Host, "reason", refusal)
		return nil
	}
	b.VIF, b.Agent, b.Segment, b.Bridge, p.Status = bound.VIF, string(bound.Agent), bound.Segment, bound.Bridge, active
	return nil
}

// directPhysical is the vnic_type of ports that have a whole NIC.
const directPhysical = "direct-physical"

// takeDeviceMAC gives a direct-physical port the MAC address of its NIC, device_mac_address of the profile of its
// active binding, because the guest has no other. When the profile no longer has one, the port gets a new address, so
// that another port can be bound to the NIC. before is the profile of the binding that was active. As Neutron does
// since its release 20; but an address that another port of the network has is a conflict.
func takeDeviceMAC(ctx context.Context, tx *store.Tx, p *store.Port, n store.Network, before store.Binding) error {
	now, _ := p.Binding.Profile[network.ProfileMAC].(string)
	had, _ := before.Profile[network.ProfileMAC].(string)
	if p.Binding.VNIC != directPhysical || now == "" && had == "" {
		return nil
	}
	mac := ""
	if now != "" {
		parsed, ok := address.ParseMAC(now)
		if !ok {
			return invalid("Invalid input for binding:profile.%s of port %s: '%s' is not a MAC address such as "+
				"fa:16:3e:00:00:01", network.ProfileMAC, p.ID, now)
		}
		mac = parsed.String()
	}
	if mac == p.MAC {
		return nil
	}
	p.MAC = mac
	if err := selectMAC(ctx, tx, p); err != nil {
		return err
	}
	return formAddresses(ctx, tx, p, n)
}

// bindingPort returns what a binding depends on.
func bindingPort(p store.Port, n store.Network, allocation map[string]string) binding.Port {
	b := binding.Port{VNICType: p.Binding.VNIC, Allocation: allocation, Network: n.ID}
	b.PCISlot = network.SlotOf(p.Binding.Profile)
	capabilities, _ := p.Binding.Profile["capabilities"].([]any)
	b.Switchdev = slices.Contains(capabilities, "switchdev")
	for _, seg := range n.Segments {
		b.Segments = append(b.Segments, binding.Segment{UUID: seg.UUID, Type: seg.Type, PhysicalNetwork: seg.PhysicalNetwork})
	}
	return b
}

// agentsOf returns the agents of a host.
func agentsOf(ctx context.Context, tx *store.Tx, s *Service, host string) ([]binding.Agent, error) {
	list, err := store.List[store.Agent](ctx, tx, store.Filter{Hosts: []string{host}})
	var agents []binding.Agent
	for _, a := range list {
		one := binding.Agent{Type: bandwidth.AgentType(a.Type), AdminUp: a.AdminUp, Provider: a.Provider,
			VNICTypes: a.VNICTypes, Silent: s.agents.silent(a, s.Now())}
		c := bridging(a)
		one.Tunnels, one.Bridges = c.TunnelTypes, c.BridgeMappings
		for _, d := range a.Devices {
			one.Devices = append(one.Devices, binding.Device(d))
		}
		agents = append(agents, one)
	}
	return agents, err
}

// allocationOf returns the provider of each group in binding:profile.allocation. Before Neutron's extension
// port-resource-request-groups it was one text: the provider of the bandwidth.
func allocationOf(profile map[string]any, groups []qos.Group) map[string]string {
	all := map[string]string{}
	switch v := profile[network.ProfileAllocation].(type) {
	case string:
		for _, g := range groups {
			if g.Type == qos.MinimumBandwidth {
				all[g.ID] = v
			}
		}
	case map[string]any:
		for id, p := range v {
			all[id], _ = p.(string)
		}
	}
	return all
}

// allocated returns the shares of a port: the amounts of the groups on the providers of its allocation.
func allocated(allocation map[string]string, groups []qos.Group) map[string]store.Allocation {
	if len(allocation) == 0 {
		return nil
	}
	all := map[string]store.Allocation{}
	for _, g := range groups {
		if p := allocation[g.ID]; p != "" {
			all[g.ID] = store.Allocation{Provider: p, Amounts: amountsOut(g.Resources)}
		}
	}
	return all
}

func amountsOut(a resource.Amounts) map[string]int {
	out := map[string]int{}
	for c, n := range a {
		if n > 0 {
			out[string(c)] = n
		}
	}
	return out
}

// allSharesOf returns the shares of a port by its active and its inactive bindings.
func allSharesOf(p store.Port) map[string]binding.Share {
	all := sharesOf(p.Allocated)
	for _, b := range p.Inactive {
		for id, share := range sharesOf(b.Allocated) {
			all[b.Host+" "+id] = share
		}
	}
	return all
}

// sharesOf returns shares for package binding.
func sharesOf(allocated map[string]store.Allocation) map[string]binding.Share {
	shares := map[string]binding.Share{}
	for id, a := range allocated {
		amounts := resource.Amounts{}
		for c, n := range a.Amounts {
			amounts[resource.Class(c)] = n
		}
		shares[id] = binding.Share{Provider: a.Provider, Amounts: amounts}
	}
	return shares
}

// setAllocated sets the shares of a port, and binding:profile.allocation; the other keys of the profile stay.
func setAllocated(p *store.Port, shares map[string]store.Allocation) {
	p.Allocated = shares
	p.Binding.Profile = maps.Clone(p.Binding.Profile)
	if p.Binding.Profile == nil {
		p.Binding.Profile = map[string]any{}
	}
	delete(p.Binding.Profile, network.ProfileAllocation)
	if len(shares) == 0 {
		return
	}
	all := map[string]any{}
	for id, a := range shares {
		all[id] = a.Provider
	}
	p.Binding.Profile[network.ProfileAllocation] = all
}

// keepAllocation keeps binding:profile.allocation of a port that stays bound with it, if a request changes other keys
// of the profile and does not have this one: a profile is replaced as a whole, and without the key the service would
// forget what Placement has for the port. A request that only removes the key removes it: compute restores ports so.
func keepAllocation(old store.Port, p *store.Port) {
	const key = network.ProfileAllocation
	_, has := p.Binding.Profile[key]
	if has || len(old.Allocated) == 0 || p.Binding.Host == "" || p.Binding.Host != old.Binding.Host {
		return
	}
	rest := maps.Clone(old.Binding.Profile)
	delete(rest, key)
	if maps.EqualFunc(rest, p.Binding.Profile, func(a, b any) bool { return reflect.DeepEqual(a, b) }) {
		return
	}
	p.Binding.Profile = maps.Clone(p.Binding.Profile)
	if p.Binding.Profile == nil {
		p.Binding.Profile = map[string]any{}
	}
	p.Binding.Profile[key] = old.Binding.Profile[key]
}

// groupsOf returns the request groups of a port with a policy.
func groupsOf(ctx context.Context, tx *store.Tx, p store.Port, n store.Network, policy string) ([]qos.Group, error) {
	if policy == "" {
		return nil, nil
	}
	found, err := GetIn[store.Policy](ctx, tx, policy)
	if err != nil {
		return nil, err
	}
	return Groups(p, n, found), nil
}

// Groups returns the request groups of a port with a policy.
func Groups(p store.Port, n store.Network, policy store.Policy) []qos.Group {
	port := qos.Port{ID: p.ID, VNICType: p.Binding.VNIC}
	for _, seg := range n.Segments {
		port.PhysicalNetworks = append(port.PhysicalNetworks, seg.PhysicalNetwork)
	}
	var rules []qos.Rule
	for _, r := range policy.Rules {
		rules = append(rules, ruleOf(r).Rule)
	}
	return qos.Request(port, rules)
}

func ruleOf(r store.Rule) qos.Limits {
	return qos.Limits{Rule: qos.Rule{ID: r.ID, Type: qos.Type(r.Type), Direction: r.Direction, Min: r.Min}, Max: r.Max}
}
