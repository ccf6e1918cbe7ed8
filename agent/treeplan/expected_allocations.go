package treeplan

import (
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Expected is what one consumer's guest has here.
type Expected struct {
	Devices resource.Allocation // by providers of Tree
	Nodes   resource.Allocation // what its cells use, by the providers of nodes of Tree
	State   HolderState         // which missing allocations may be written now
}

// HolderState is the state of a consumer's assignment, for a consumer whose guest has devices here. It decides which
// missing allocations may be written to Placement.
type HolderState int

// The states of a holder, in the order of what they permit.
const (
	Assigned HolderState = iota // compute has confirmed the assignment to this host: all
	// confirmed, but a move may be in progress: only those of providers that do not exist yet
	Moving
	Pending    // not confirmed yet: none, and a missing provider of its devices is not created
	Unassigned // compute does not assign it to this host: none
)

// all returns what the guest has of devices and of nodes.
func (e Expected) all() resource.Allocation { return e.Devices.Add(e.Nodes) }

// ExpectedAllocations returns the devices of guests by consumer and by provider of the tree, without those that
// Placement does not count, and what their cells use of nodes. stateOf returns the state of a consumer.
func ExpectedAllocations(tree provider.Tree, held []device.Claim, nodes map[resource.ConsumerID]resource.Allocation,
	stateOf func(resource.ConsumerID) HolderState) map[resource.ConsumerID]Expected {
	out := map[resource.ConsumerID]Expected{}
	for consumer, use := range nodes {
		out[consumer] = Expected{Devices: resource.Allocation{}, Nodes: use, State: stateOf(consumer)}
	}
	for _, c := range held {
		h, known := out[c.Holder]
		if !known {
			h = Expected{Devices: resource.Allocation{}, State: stateOf(c.Holder)}
		}
		if p, counted := tree.ByID(c.Provider); counted && c.Provider != "" && c.ResourceClass != "" {
			if h.Devices[p.ID] == nil {
				h.Devices[p.ID] = resource.Amounts{}
			}
			h.Devices[p.ID][c.ResourceClass] += c.Amount()
		}
		out[c.Holder] = h
	}
	return out
}
