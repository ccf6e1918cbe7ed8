// Package qos computes what a port requests from Placement: its effective policy, the request groups of the policy's
// minimum rules, and their ids.
package qos

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Type is the type of a rule.
type Type string

// The types of rules.
const (
	MinimumBandwidth  Type = "minimum_bandwidth"
	MinimumPacketRate Type = "minimum_packet_rate"
	BandwidthLimit    Type = "bandwidth_limit"
	DSCPMarking       Type = "dscp_marking"
)

// Guarantees lists the types whose rules Placement guarantees, in the order of the groups of a request.
func Guarantees() []Type { return []Type{MinimumBandwidth, MinimumPacketRate} }

// Rule is a rule of a policy, with what Placement needs. Min is in kilobits or kilopackets per second.
type Rule struct {
	ID        string
	Type      Type
	Direction string // egress, ingress, or any (packet rates only)
	Min       int
}

// Class returns the resource class of a rule. ok is false for a rule without a guarantee.
func (r Rule) Class() (c resource.Class, ok bool) {
	c, ok = map[[2]string]resource.Class{
		{string(MinimumBandwidth), "egress"}:   bandwidth.EgressBandwidth,
		{string(MinimumBandwidth), "ingress"}:  bandwidth.IngressBandwidth,
		{string(MinimumPacketRate), "egress"}:  bandwidth.EgressPacketRate,
		{string(MinimumPacketRate), "ingress"}: bandwidth.IngressPacketRate,
		{string(MinimumPacketRate), "any"}:     bandwidth.PacketRate,
	}[[2]string{string(r.Type), r.Direction}]
	return c, ok
}

// Port is what a request depends on, apart from the policy.
type Port struct {
	ID       string
	VNICType string
	// PhysicalNetworks has one element for each segment of the network: its physical network, or an empty text for a
	// segment without one.
	PhysicalNetworks []string
}

// Group is a request group: resources of one provider, which has the required traits.
type Group struct {
	ID        string
	Type      Type
	Required  []resource.Trait
	AnyOf     []resource.Trait // the provider has at least one of them; empty: no such condition
	Resources resource.Amounts
}

// Effective returns the policy that applies to a port: its own one, or that of its network. Empty means none.
func Effective(ofPort, ofNetwork string) string { return cmp.Or(ofPort, ofNetwork) }

// Request returns the request groups of a port with the rules of its effective policy: first that of the bandwidth,
// then that of the packet rate. Without segments there is no group for the bandwidth, because no provider can be
// named. All groups of a port must be in one subtree, whose root satisfies one of them.
func Request(port Port, rules []Rule) []Group {
	var groups []Group
	for _, kind := range Guarantees() {
		g := Group{Type: kind, Resources: resource.Amounts{}}
		var ids []string
		for _, r := range rules {
			if class, ok := r.Class(); ok && r.Type == kind {
				g.Resources[class] = r.Min
				ids = append(ids, r.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		if kind == MinimumBandwidth {
			network := networkTraits(port.PhysicalNetworks)
			switch len(network) {
			case 0:
				continue
			case 1:
				g.Required = network
			default:
				g.AnyOf = network
			}
		}
		slices.Sort(ids)
		g.ID = GroupID(port.ID, ids)
		g.Required = append(g.Required, bandwidth.VNICTrait(port.VNICType))
		groups = append(groups, g)
	}
	return groups
}

// networkTraits returns the traits of the segments of a network without duplicates.
func networkTraits(physicalNetworks []string) []resource.Trait {
	var traits []resource.Trait
	for _, physnet := range physicalNetworks {
		t := bandwidth.Tunnel
		if physnet != "" {
			t = bandwidth.PhysnetTrait(physnet)
		}
		if !slices.Contains(traits, t) {
			traits = append(traits, t)
		}
	}
	return traits
}

// GroupID returns the id of the group of rules of one type, which depends on the order of the rules: a UUID of version
// 5 in the name space of the port. Request sorts the rules.
func GroupID(port string, rules []string) string {
	return string(provider.IDFromName(provider.ID(port), strings.Join(rules, ":")))
}
