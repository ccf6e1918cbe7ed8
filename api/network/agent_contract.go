package network

import "net/netip"

// AgentReport is what an agent of Berth reports about one agent type of its host: the body of
// PUT /berth/v1/network-agents/{host}/{agent type}. A report is also the heartbeat of the agent.
type AgentReport struct {
	Binary string `json:"binary"` // such as berth-agent
	Start  string `json:"start"`  // random for each start of the agent
	// Synced is whether Placement has what the agent reports; null: not attempted yet, or the agent reports no bandwidth.
	Synced         *bool          `json:"resources_synced"`
	Root           string         `json:"root,omitempty"`       // the UUID of the host's provider
	Provider       string         `json:"provider,omitempty"`   // the UUID of the provider of packet rates
	VNICTypes      []string       `json:"vnic_types,omitempty"` // that its ports may have; empty: all that it can bind
	Devices        []AgentDevice  `json:"devices"`
	Configurations map[string]any `json:"configurations,omitempty"` // for the agent list, under Neutron's names
}

// AgentDevice is an interface or a bridge of a host, and its provider of bandwidth.
type AgentDevice struct {
	Name             string   `json:"name"`
	Provider         string   `json:"provider,omitempty"`
	PhysicalNetworks []string `json:"physical_networks,omitempty"`
	PCISlots         []string `json:"pci_slots,omitempty"` // the PCI addresses of its VFs
}

// HostPorts is the answer of GET /berth/v1/hosts/{host}/ports?since=REVISION: the ports of a host that have changed
// since a revision, and those that have left the host. With since=0, or if the service does not have all changes since
// the revision any more, Whole is set: Ports has all ports of the host, and others have left it.
type HostPorts struct {
	Revision int64      `json:"revision"` // for the next request
	Whole    bool       `json:"whole"`
	Ports    []HostPort `json:"ports"`
	Left     []string   `json:"left"`
}

// HostPort is what the data plane of a host needs for a port. Rates are in kilobits per second; 0: none.
type HostPort struct {
	ID              string `json:"id"`
	Device          string `json:"device_id"`
	Agent           string `json:"agent_type"` // empty: no agent is responsible
	VIF             string `json:"vif_type"`
	VNIC            string `json:"vnic_type"`
	MAC             string `json:"mac"`
	AdminUp         bool   `json:"admin_state_up"`
	MTU             int    `json:"mtu"`
	PhysicalNetwork string `json:"physical_network,omitempty"`
	NetworkType     string `json:"network_type,omitempty"`
	SegmentationID  int    `json:"segmentation_id,omitempty"` // of a VLAN network the VLAN
	PCISlot         string `json:"pci_slot,omitempty"`
	MinEgress       int    `json:"min_egress_kbps,omitempty"`
	MinIngress      int    `json:"min_ingress_kbps,omitempty"`
	MaxEgress       int    `json:"max_egress_kbps,omitempty"`
	MaxIngress      int    `json:"max_ingress_kbps,omitempty"`
	Trusted         bool   `json:"trusted"`     // binding:profile trusted
	SpoofCheck      bool   `json:"spoof_check"` // port security, and no trust

	PortIdentity
}

// PortIdentity is what a port is in its network.
type PortIdentity struct {
	Network      string        `json:"network_id"`
	Owner        string        `json:"device_owner,omitempty"`
	Project      string        `json:"project_id,omitempty"`
	Bridge       string        `json:"bridge,omitempty"` // that has the interface of the port; empty: the driver's
	Name         string        `json:"name,omitempty"`   // its host name in the network
	FixedIPs     []FixedIP     `json:"fixed_ips,omitempty"`
	PortSecurity bool          `json:"port_security_enabled"`
	Pairs        []AddressPair `json:"allowed_address_pairs,omitempty"`
	Groups       []string      `json:"security_groups,omitempty"` // their UUIDs
}

// AddressPair is an address, or a network in CIDR notation, that a port may use beside its own.
type AddressPair struct {
	Address string `json:"ip_address"`
	MAC     string `json:"mac_address,omitempty"` // empty: that of the port
}

// HostNetworks is the answer of GET /berth/v1/hosts/{host}/networks: the networks that a host connects by its own Linux
// bridges, and the ports of the host there. A port whose server is about to migrate to the host is one of them. The
// request also creates and removes the host's own ports on these networks.
type HostNetworks struct {
	Networks []HostNetwork `json:"networks"`
	Ports    []HostPort    `json:"ports"`
	// Groups are the security groups of these ports, and the remote groups of their rules.
	Groups []HostSecurityGroup `json:"security_groups,omitempty"`
}

// HostSecurityGroup is what a host needs of a security group. Of a group that none of its ports has, it needs the
// members only.
type HostSecurityGroup struct {
	ID        string                  `json:"id"`
	Stateless bool                    `json:"stateless,omitempty"`
	Rules     []HostSecurityGroupRule `json:"rules,omitempty"`
	Members   []string                `json:"members,omitempty"` // addresses and networks, if a rule names the group
}

// HostSecurityGroupRule is a rule of a security group. Texts that are empty and numbers that are nil mean any.
type HostSecurityGroupRule struct {
	ID           string `json:"id"`
	Direction    string `json:"direction"`
	EtherType    string `json:"ethertype"`
	Protocol     string `json:"protocol,omitempty"`
	Min          *int   `json:"port_range_min,omitempty"`
	Max          *int   `json:"port_range_max,omitempty"`
	RemoteGroup  string `json:"remote_group_id,omitempty"`
	RemotePrefix string `json:"remote_ip_prefix,omitempty"`
}

// HostNetwork is a network that a host connects by a Linux bridge.
type HostNetwork struct {
	ID              string       `json:"id"`
	Name            string       `json:"name,omitempty"`
	Bridge          string       `json:"bridge"`
	NetworkType     string       `json:"network_type"`
	PhysicalNetwork string       `json:"physical_network,omitempty"`
	SegmentationID  int          `json:"segmentation_id,omitempty"`
	MTU             int          `json:"mtu"`
	DNSDomain       string       `json:"dns_domain,omitempty"`
	Port            string       `json:"port_id,omitempty"` // the host's own port; empty: it has none
	MAC             string       `json:"mac,omitempty"`     // of that port
	Subnets         []HostSubnet `json:"subnets"`
	Peers           []string     `json:"peers,omitempty"` // addresses of the other ends of a tunnelled network
	Names           []HostName   `json:"names,omitempty"` // of all ports of the network
}

// Routed reports whether the hosts of a network route it: they have the addresses of its gateways.
func (n HostNetwork) Routed() bool { return n.NetworkType == "vxlan" }

// HostSubnet is a subnet of a network of a host.
type HostSubnet struct {
	ID        string   `json:"id"`
	IPVersion int      `json:"ip_version"`
	CIDR      string   `json:"cidr"`
	Gateway   string   `json:"gateway_ip,omitempty"` // empty: none
	DHCP      bool     `json:"enable_dhcp"`
	DNS       []string `json:"dns_nameservers,omitempty"`
	Routes    []Route  `json:"host_routes,omitempty"`
	Address   string   `json:"address,omitempty"` // of the host's own port; empty: it has none there
	// UserChosen: a user who may not create provider networks has chosen its addresses, so they may be those of other
	// machines that the host reaches.
	UserChosen bool `json:"user_chosen,omitempty"`
	// IPv6Mode is how guests get their addresses of IPv6: slaac, dhcpv6-stateful, dhcpv6-stateless; empty: otherwise.
	// If the hosts route the network, ipv6_ra_mode comes first, else it does not count.
	IPv6Mode string `json:"ipv6_mode,omitempty"`
}

// The values of ipv6_address_mode and ipv6_ra_mode.
const (
	SLAAC           = "slaac"
	DHCPv6Stateful  = "dhcpv6-stateful"
	DHCPv6Stateless = "dhcpv6-stateless"
)

// MinMTU6 is the smallest MTU of a link with IPv6 (RFC 8200, section 5).
const MinMTU6 = 1280

// CanServeDHCPv6 reports whether a subnet of IPv6 in CIDR notation can be served by DHCP in a network of an MTU, 0 if
// that is not known: dnsmasq serves no prefixes shorter than 64.
func CanServeDHCPv6(cidr string, mtu int) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && p.Bits() >= 64 && (mtu == 0 || mtu >= MinMTU6)
}

// HostServesDHCPv6 reports whether the hosts serve a subnet of IPv6 by DHCPv6 in a network that they do not route. mode
// is ipv6_address_mode: without DHCPv6 in it, guests may know nothing of a DHCP server, because another router
// advertises.
func HostServesDHCPv6(mode, cidr string, mtu int) bool {
	return (mode == DHCPv6Stateful || mode == DHCPv6Stateless) && CanServeDHCPv6(cidr, mtu)
}

// HostName is the name of an address in a network.
type HostName struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// TapName returns the name of the interface of a port on its host, as Nova and Neutron's agents form it: a name of a
// Linux interface has at most 15 bytes.
func TapName(port string) string { return "tap" + port[:min(len(port), 11)] }

// HostAccount is the body of PUT /berth/v1/hosts/{host}/account.
type HostAccount struct {
	Account string `json:"account"` // the id of the user that the agent of the host uses
}
