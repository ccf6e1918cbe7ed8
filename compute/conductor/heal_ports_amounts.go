package conductor

import (
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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

// portClassesOf returns the part of an allocation that ports request.
func portClassesOf(a resource.Allocation) resource.Allocation {
	return a.Excess(lifecycle.WithoutPorts(a))
}

// PortHealing is what heals the ports of one server.
type PortHealing struct {
	Server, Name, Host string
	Ports              []HealedPort
	Adds, Removes      resource.Allocation // changes of the server's allocation
	State              PortsState
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
	PortsNeedHealing  PortsState = "needs healing"
	PortsHealed       PortsState = "healed"
	PortsNotAllocated PortsState = "not allocated" // no provider, several ones, or Placement refuses
	PortsNotRead      PortsState = "ports not read"
	PortsNotWritten   PortsState = "ports not written"  // the network service refuses; nothing is changed
	PortsNotRestored  PortsState = "ports not restored" // an operator must repair them
	PortsBusy         PortsState = "busy"               // a step of the server is due
)

// portPlanner plans the healing of servers. It reads only.
type portPlanner struct {
	reading
	trees map[provider.ID]provider.Tree // that were read, by root
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

// PortsState is the state of the ports of a server, as healing has found or left it.
type PortsState string
