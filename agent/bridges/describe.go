package bridges

import (
	"slices"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/api/network"
)

// Description is what a host has of a network that it connects by a Linux bridge.
type Description struct {
	Network  string   `json:"network_id"`
	Name     string   `json:"name"`
	Type     string   `json:"network_type"`
	Segment  int      `json:"segmentation_id,omitempty"`
	Bridge   string   `json:"bridge"`
	Exists   bool     `json:"bridge_exists"`
	MTU      int      `json:"mtu"`
	Gateways []string `json:"gateways"`
	Own      []string `json:"own_addresses"`
	Peers    []string `json:"peers"`
	Members  []string `json:"members"`  // interfaces of guests in the bridge
	DHCP     int      `json:"dhcp_pid"` // process of its DHCP server; 0: none runs
	Leases   []Lease  `json:"leases"`
}

// Lease is the address that the port of a guest gets.
type Lease struct {
	Port      string   `json:"port_id"`
	MAC       string   `json:"mac_address"`
	Addresses []string `json:"addresses"`
	Name      string   `json:"name"`
}

// Describe describes the networks in the file of a state, as they are in the kernel. servers are the processes of their
// DHCP servers.
func Describe(file string, present map[string]bridgeplan.Link, servers map[string]int) ([]Description, error) {
	all, _, err := readState(file)
	list := []Description{}
	for _, n := range all.Networks {
		_, exists := present[n.Bridge]
		d := Description{Network: n.ID, Name: n.Name, Type: n.NetworkType, Segment: n.SegmentationID, Bridge: n.Bridge,
			Exists: exists, MTU: n.MTU, Gateways: []string{}, Own: []string{}, Peers: slices.Clone(n.Peers),
			Members: bridgeplan.Members(present, n.Bridge), DHCP: servers[n.ID], Leases: []Lease{}}
		for _, a := range present[n.Bridge].Addresses {
			d.Gateways = append(d.Gateways, a.Prefix.String())
		}
		for _, a := range present[bridgeplan.OwnInterface(n.ID)].Addresses {
			d.Own = append(d.Own, a.Prefix.String())
		}
		for _, p := range all.Ports {
			if p.Network == n.ID {
				d.Leases = append(d.Leases, lease(p))
			}
		}
		list = append(list, d)
	}
	return list, err
}

// lease returns the lease of a port.
func lease(p network.HostPort) Lease {
	l := Lease{Port: p.ID, MAC: p.MAC, Name: p.Name, Addresses: []string{}}
	for _, ip := range p.FixedIPs {
		l.Addresses = append(l.Addresses, ip.Address)
	}
	return l
}
