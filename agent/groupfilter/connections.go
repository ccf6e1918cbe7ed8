package groupfilter

import (
	"net/netip"

	"github.com/openberth/berth/securitygroup"
)

// Connection is an entry of the kernel's table of connections, by its first packet.
type Connection struct {
	Zone        int
	Source      netip.Addr
	Destination netip.Addr
	Protocol    int
	SourcePort  int
	Port        int // of the destination
	Type, Code  int // of ICMP
	Mark        uint32
}

// Connections decides which connections the rules of a state permit.
type Connections struct {
	state State
	ports map[place][]Port
}

// place is an address in a zone.
type place struct {
	zone    int
	address netip.Addr
}

// Connections returns the decisions for a state.
func (s State) Connections() Connections {
	c := Connections{s, map[place][]Port{}}
	for _, p := range s.Ports {
		for _, source := range p.Sources() {
			if source.Address.IsSingleIP() {
				zone := s.Zones[p.Bridge]
				c.add(zone.Number, source.Address.Addr(), p)
				if len(zone.Host) > 0 {
					c.add(0, source.Address.Addr(), p)
				}
			}
		}
	}
	return c
}

func (c Connections) add(zone int, address netip.Addr, p Port) {
	at := place{zone, address}
	c.ports[at] = append(c.ports[at], p)
}

// Blocks reports whether the packets of a connection must be dropped: a port of the host is one of its ends, and its
// rules do not permit it.
func (c Connections) Blocks(one Connection) bool {
	packet := securitygroup.Packet{Source: one.Source, Destination: one.Destination, Protocol: one.Protocol,
		SourcePort: one.SourcePort, Port: one.Port, Type: one.Type, Code: one.Code}
	for _, end := range []struct {
		direction string
		address   netip.Addr
	}{{securitygroup.Egress, one.Source}, {securitygroup.Ingress, one.Destination}} {
		packet.Direction = end.direction
		ports := c.ports[place{one.Zone, end.address}]
		permitted := len(ports) == 0
		for _, p := range ports { // several ports may share the address of a pair
			permitted = permitted || securitygroup.Decide(p.Port, c.state.Groups, packet).Allowed
		}
		if !permitted {
			return true
		}
	}
	return false
}
