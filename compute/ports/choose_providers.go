package ports

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// portPlanner plans the healing of servers. It reads only.
type portPlanner struct {
	store     Store
	placement Placement
	providers Trees
	network   NetworkReader                 // nil: no server has ports
	trees     map[provider.ID]provider.Tree // that were read, by root
}

// portsPlan is what heals a server.
type portsPlan struct {
	server         lifecycle.Server
	host           schedule.Host
	before         []network.Port // the ports as they are
	bound          []network.Port // the same with the bindings that were lost
	after          []network.Port // the same when they are healed
	wants, devices resource.Allocation
	tree           provider.Tree       // of the host
	held           resource.Allocation // of the server
	others         resource.Allocation // what the other ports of the server keep while choose is called
}

func (b *Binder) planner() portPlanner {
	h := portPlanner{store: b.store, placement: b.Writer, providers: b.Trees, trees: map[provider.ID]provider.Tree{}}
	if b.Network != nil {
		h.network = b.Network
	}
	return h
}

// tree returns a provider tree. It reads a tree once.
func (h portPlanner) tree(ctx context.Context, root provider.ID) (provider.Tree, error) {
	if known, read := h.trees[root]; read {
		return known, nil
	}
	tree, err := h.providers.Tree(ctx, root)
	if err == nil {
		h.trees[root] = tree
	}
	return tree, err
}

// This file chooses the providers of groups that a bound port requests and has none for. What the server holds counts
// as free, apart from what its other ports keep: an allocation that is only to grow needs room for the difference.

// healedPort returns a port with a provider for each of its groups, and records the change. It sets change.Reason if
// there is none, or if there are several. left is what the server has of port classes that its ports do not explain;
// a group that fits into it on one provider only has it already, and it is removed from left.
func (h portPlanner) healedPort(ctx context.Context, p *portsPlan, port network.Port, left resource.Allocation,
	change *HealedPort) (network.Port, error) {
	var missing []resource.Group
	device, _ := deviceUnit(p.host, port)
	onNIC := func(at provider.ID) bool { return device == "" || isAbove(p.tree, at, device) }
	chosen := map[string]provider.ID{}
	want, old := scheduler.ReadPort(port, lifecycle.NetworkRequest{}, ""), port.Allocation()
	groups := slices.DeleteFunc(want.Groups, func(g resource.Group) bool { return len(g.Resources.Positive()) == 0 })
	for _, g := range groups {
		g.Resources = g.Resources.Positive()
		at := want.Allocation[g.Suffix]
		if one, legacy := old[""]; at == "" && legacy && len(groups) == 1 {
			at = provider.ID(one)
		}
		if at == "" {
			at = takeUnexplained(left, g.Resources, onNIC)
		}
		if at == "" {
			at = p.formerProvider(port, g)
		}
		if at == "" || !onNIC(at) {
			missing = append(missing, g)
			continue
		}
		chosen[g.Suffix] = at
	}
	if len(missing) > 0 {
		found, reason, err := h.choose(ctx, p, port, missing, chosen)
		if err != nil || reason != "" {
			change.Reason = reason
			return port, err
		}
		maps.Copy(chosen, found)
	}
	if maps.Equal(chosen, want.Allocation) {
		return port, nil
	}
	change.Groups, port.Profile = chosen, network.WithAllocation(port.Profile, port.ID, chosen)
	return port, nil
}

// formerProvider returns the provider that a port has had for another group of the same kind, before its policy
// changed; empty if there is none.
func (p portsPlan) formerProvider(port network.Port, g resource.Group) provider.ID {
	current := scheduler.GroupsOf(port)
	had := port.Allocation()
	for _, id := range slices.Sorted(maps.Keys(had)) {
		at, known := p.tree.ByID(provider.ID(had[id]))
		used := slices.ContainsFunc(current, func(o resource.Group) bool { return o.Suffix == id })
		if known && !used && hasClasses(at, g.Resources) {
			return at.ID
		}
	}
	return ""
}

// choose returns the only providers on the host of the server that can serve groups of a port, or why there are
// none. chosen are the providers of the port's other groups. Of several ones those are preferred on which the server
// has amounts that no other port explains.
func (h portPlanner) choose(ctx context.Context, p *portsPlan, port network.Port,
	groups []resource.Group, chosen map[string]provider.ID) (found map[string]provider.ID, reason string, err error) {
	device, _ := deviceUnit(p.host, port)
	ways, short := []map[string]provider.ID{{}}, ""
	for _, g := range groups {
		list, why, err := h.providersFor(ctx, p, g)
		if err != nil {
			return nil, "", err
		}
		short = cmp.Or(short, why)
		ways = eachWith(ways, g.Suffix, list)
	}
	ways = slices.DeleteFunc(ways, func(one map[string]provider.ID) bool {
		return !inOneSubtree(p.tree, device, one, chosen)
	})
	if held := portClassesOf(p.held).Excess(p.others); len(ways) > 1 {
		own := slices.DeleteFunc(slices.Clone(ways), func(one map[string]provider.ID) bool {
			for _, at := range one {
				if len(held[at]) == 0 {
					return true
				}
			}
			return false
		})
		if len(own) == 1 {
			ways = own
		}
	}
	switch len(ways) {
	case 1:
		return ways[0], "", nil
	case 0:
		reason = "no provider on host " + p.host.Name + " has room for what the port requests"
		if device != "" {
			reason += " on the NIC of its device"
		}
		if short != "" {
			reason += " (" + short + ")"
		}
		return nil, reason + "; migrate the server, or request less", nil
	}
	return nil, fmt.Sprintf("%d allocation candidates on host %s are possible, and only the host knows which NIC the "+
		"port uses; set binding:profile.allocation of the port, or migrate the server", len(ways), p.host.Name), nil
}

// eachWith returns each way with each provider for a further group.
func eachWith(ways []map[string]provider.ID, group string, list []provider.ID) (all []map[string]provider.ID) {
	for _, way := range ways {
		for _, at := range list {
			one := maps.Clone(way)
			one[group] = at
			all = append(all, one)
		}
	}
	return all
}

// providersFor returns the providers of the host's tree that can serve a group, and why one of the others cannot.
func (h portPlanner) providersFor(ctx context.Context, p *portsPlan, g resource.Group) (list []provider.ID,
	short string, err error) {
	for _, one := range p.tree.Providers {
		if !hasTraits(one, g.Required) || !hasClasses(one, g.Resources) {
			continue
		}
		used, err := h.placement.Usages(ctx, one.ID)
		if err != nil {
			return nil, "", err
		}
		var refusals []string
		for _, class := range slices.Sorted(maps.Keys(g.Resources.Positive())) {
			rest := used[class] - p.held[one.ID][class] + p.others[one.ID][class]
			if why := one.Inventories[class].Refuse(used[class], rest, g.Resources[class]); why != "" {
				refusals = append(refusals, string(class)+" of "+one.Name+" "+why)
			}
		}
		if len(refusals) == 0 {
			list = append(list, one.ID)
		}
		short = cmp.Or(short, strings.Join(refusals, ", "))
	}
	return list, short, nil
}

// hasTraits reports whether a provider has at least one trait of each set.
func hasTraits(p provider.Provider, required [][]resource.Trait) bool {
	return !slices.ContainsFunc(required, func(anyOf []resource.Trait) bool {
		return !slices.ContainsFunc(anyOf, p.HasTrait)
	})
}

// hasClasses reports whether a provider has inventories of all classes of amounts.
func hasClasses(p provider.Provider, amounts resource.Amounts) bool {
	for class := range amounts.Positive() {
		if _, has := p.Inventories[class]; !has {
			return false
		}
	}
	return true
}

// deviceUnit returns the provider and the class in which Placement counts the device of a bound port. The provider is
// empty if the port has no device, or Placement does not count it.
func deviceUnit(host schedule.Host, p network.Port) (at provider.ID, class resource.Class) {
	class, needed := portrequest.Class(p.VNIC)
	slot := network.SlotOf(p.Profile)
	if !needed || slot == "" {
		return "", ""
	}
	for _, d := range host.Devices {
		if d.Address.String() == slot && d.ForPorts {
			return d.Provider, class
		}
	}
	return "", ""
}

// inOneSubtree reports whether providers may serve one port: the device is below each provider of bandwidth, and of two
// providers one is above the other. An empty device has no provider.
func inOneSubtree(tree provider.Tree, device provider.ID, found, chosen map[string]provider.ID) bool {
	for _, at := range found {
		if device != "" && !isAbove(tree, at, device) {
			return false
		}
		for _, others := range []map[string]provider.ID{chosen, found} {
			for _, other := range others {
				if !isAbove(tree, at, other) && !isAbove(tree, other, at) {
					return false
				}
			}
		}
	}
	return true
}

// isAbove reports whether a provider is another one or one of its ancestors.
func isAbove(tree provider.Tree, above, below provider.ID) bool {
	for range len(tree.Providers) + 1 {
		if above == below {
			return true
		}
		at, _ := tree.ByID(below)
		if below = at.Parent; below == "" {
			return false
		}
	}
	return false
}

// takeUnexplained returns the only allowed provider where left has amounts, and subtracts them from left. It returns an
// empty id if there is none, or if there are several.
func takeUnexplained(left resource.Allocation, amounts resource.Amounts, allowed func(provider.ID) bool) (
	at provider.ID) {
	for id, has := range left {
		enough := allowed(id)
		for class, n := range amounts {
			enough = enough && has[class] >= n
		}
		if enough && at != "" {
			return ""
		}
		if enough {
			at = id
		}
	}
	if at != "" {
		for class, n := range amounts {
			left[at][class] -= n
		}
	}
	return at
}

// Healing is what heals the ports of one server.
type Healing struct {
	Server, Name, Host string
	Ports              []HealedPort
	Adds, Removes      resource.Allocation // changes of the server's allocation
	State              State
	Reason             string // why the ports are not healed
}

// HealedPort is a port whose allocation or device healing changes, or the one that prevents it.
type HealedPort struct {
	ID     string
	Bind   bool                   // it is bound to the host of the server again
	Groups map[string]provider.ID // the providers that its groups get; nil: they have them
	Device string                 // the address of its device, if Placement does not count it
	Reason string                 // why it cannot be healed
}

// The states of the ports of a server.
const (
	NeedHealing  State = "needs healing"
	Healed       State = "healed"
	NotAllocated State = "not allocated" // no provider, several ones, or Placement refuses
	NotRead      State = "ports not read"
	NotWritten   State = "ports not written"  // the network service refuses; nothing is changed
	NotRestored  State = "ports not restored" // an operator must repair them
	Busy         State = "busy"               // a step of the server is due
)

// State is the state of the ports of a server, as healing has found or left it.
type State string
