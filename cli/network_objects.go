package cli

import (
	"context"
	"net/netip"

	"github.com/openberth/berth/fault"
)

// The kinds of the commands on networks, subnets and ports.
type (
	networkKind struct{}
	subnetKind  struct{}
	portKind    struct{}
)

func (networkKind) kind() *kind { return kinds["network"] }
func (subnetKind) kind() *kind  { return kinds["subnet"] }
func (portKind) kind() *kind    { return kinds["port"] }

// networkChanges are the attributes of a network that can be changed.
type networkChanges struct {
	Description  *string `api:"description" help:"Description." placeholder:"TEXT"`
	Shared       *bool   `api:"shared" help:"All projects use the network, or with --no-shared only its own." negatable:""`
	External     *bool   `api:"router:external" help:"The network leads out of the cloud." negatable:""`
	AdminUp      *bool   `name:"enable" api:"admin_state_up" help:"Ports of the network are in use, or with --disable not." negatable:"disable"`
	MTU          *int    `name:"mtu" api:"mtu" help:"Largest packet in bytes." placeholder:"BYTES"`
	QoSPolicy    *string `name:"qos-policy" api:"qos_policy_id" of:"QoS policy" help:"Name or id of a QoS policy, or none." placeholder:"POLICY"`
	PortSecurity *bool   `name:"port-security" api:"port_security_enabled" help:"New ports are filtered by their security groups." negatable:""`
}

// networkFlags are the attributes of a new network.
type networkFlags struct {
	networkChanges
	Type            *string `name:"provider-network-type" api:"provider:network_type" help:"How the network is built, such as flat, vlan or vxlan." placeholder:"TYPE"`
	PhysicalNetwork *string `name:"provider-physical-network" api:"provider:physical_network" help:"Physical network of a flat network or a VLAN." placeholder:"NAME"`
	Segment         *int    `name:"provider-segment" api:"provider:segmentation_id" help:"Number of the VLAN or VXLAN." placeholder:"NUMBER"`
	Project         *string `api:"project_id" help:"Project that owns the network." placeholder:"PROJECT"`
}

// subnetChanges are the attributes of a subnet that can be changed.
type subnetChanges struct {
	Description    *string  `api:"description" help:"Description." placeholder:"TEXT"`
	Gateway        *orNone  `api:"gateway_ip" help:"Address of the router, or none." placeholder:"ADDRESS"`
	DHCP           *bool    `name:"dhcp" api:"enable_dhcp" help:"Guests get their addresses by DHCP." negatable:""`
	DNS            []string `name:"dns-nameserver" api:"dns_nameservers" help:"Address of a DNS server; may be repeated." placeholder:"ADDRESS"`
	AllocationPool pools    `api:"allocation_pools" help:"Addresses that ports get; may be repeated." placeholder:"start=A,end=B" sep:"none"`
	HostRoute      routes   `api:"host_routes" help:"Route that guests get; may be repeated." placeholder:"destination=CIDR,gateway=A" sep:"none"`
}

// pools and routes are lists of KEY=VALUE,… .
type (
	pools  keyed
	routes keyed
)

func (p pools) attribute() (any, error) {
	return keyed(p).objects(map[string]string{"start": "start", "end": "end"})
}

func (r routes) attribute() (any, error) {
	return keyed(r).objects(map[string]string{"destination": "destination", "gateway": "nexthop"})
}

// subnetFlags are the attributes of a new subnet.
type subnetFlags struct {
	Network string `required:"" api:"network_id" of:"network" help:"Name or id of the network." placeholder:"NETWORK"`
	Range   string `name:"subnet-range" required:"" api:"cidr" help:"Addresses of the subnet, such as 10.0.0.0/24." placeholder:"CIDR"`
	subnetChanges
	AddressMode *string `name:"ipv6-address-mode" api:"ipv6_address_mode" help:"How guests get IPv6 addresses: slaac, dhcpv6-stateful or dhcpv6-stateless." placeholder:"MODE"`
	RouterMode  *string `name:"ipv6-ra-mode" api:"ipv6_ra_mode" help:"What routers announce: slaac, dhcpv6-stateful or dhcpv6-stateless." placeholder:"MODE"`
	Project     *string `api:"project_id" help:"Project that owns the subnet." placeholder:"PROJECT"`
}

// complete sets the version of IP, which the range has.
func (f *subnetFlags) complete(_ context.Context, _ *Globals, set map[string]any) error {
	prefix, err := netip.ParsePrefix(f.Range)
	if err != nil {
		return fault.New(fault.Invalid, "--subnet-range %q is not valid: write one such as 10.0.0.0/24", f.Range)
	}
	set["ip_version"] = 6
	if prefix.Addr().Is4() {
		set["ip_version"] = 4
	}
	return nil
}

// portChanges are the attributes of a port that can be changed.
type portChanges struct {
	Description     *string  `api:"description" help:"Description." placeholder:"TEXT"`
	FixedIP         []string `name:"fixed-ip" help:"Address, as subnet=NAME, as ip-address=ADDRESS or with both; may be repeated. none: no address." placeholder:"KEY=VALUE" sep:"none"`
	MAC             *string  `name:"mac-address" api:"mac_address" help:"MAC address." placeholder:"MAC"`
	VNICType        *string  `name:"vnic-type" api:"binding:vnic_type" help:"Type of the interface, such as normal or direct." placeholder:"TYPE"`
	QoSPolicy       *string  `name:"qos-policy" api:"qos_policy_id" of:"QoS policy" help:"Name or id of a QoS policy, or none." placeholder:"POLICY"`
	SecurityGroup   []string `name:"security-group" api:"security_groups" of:"security group" help:"Name or id of a security group; may be repeated." placeholder:"GROUP"`
	NoSecurityGroup bool     `name:"no-security-group" help:"The port is in no security group."`
	PortSecurity    *bool    `name:"port-security" api:"port_security_enabled" help:"The port is filtered by its security groups, and sends from its own addresses only." negatable:""`
	AdminUp         *bool    `name:"enable" api:"admin_state_up" help:"The port is in use, or with --disable not." negatable:"disable"`
}

// complete sets the addresses and removes the security groups.
func (f *portChanges) complete(ctx context.Context, g *Globals, set map[string]any) error {
	if f.NoSecurityGroup {
		if len(f.SecurityGroup) > 0 {
			return fault.New(fault.Invalid, "--no-security-group excludes --security-group")
		}
		set["security_groups"] = []string{}
	}
	if len(f.FixedIP) == 0 {
		return nil
	}
	addresses := []map[string]any{}
	if len(f.FixedIP) > 1 || f.FixedIP[0] != none {
		var err error
		addresses, err = keyed(f.FixedIP).objects(map[string]string{"subnet": "subnet_id", "ip-address": "ip_address"})
		if err != nil {
			return err
		}
	}
	for _, one := range addresses {
		subnet, has := one["subnet_id"].(string)
		if !has {
			continue
		}
		id, err := kinds["subnet"].idOf(ctx, g, subnet)
		if err != nil {
			return err
		}
		one["subnet_id"] = id
	}
	set["fixed_ips"] = addresses
	return nil
}

// portFlags are the attributes of a new port.
type portFlags struct {
	Network string `required:"" api:"network_id" of:"network" help:"Name or id of the network." placeholder:"NETWORK"`
	portChanges
	Project *string `api:"project_id" help:"Project that owns the port." placeholder:"PROJECT"`
}

// SubnetCmd groups the commands on subnets.
type SubnetCmd struct {
	Create createOfKind[subnetKind, subnetFlags] `cmd:"" help:"Create a subnet."`
	List   listOfKind[subnetKind]                `cmd:"" help:"List subnets."`
	Show   showOfKind[subnetKind]                `cmd:"" help:"Show a subnet."`
	Set    setOfKind[subnetKind, subnetChanges]  `cmd:"" help:"Change a subnet."`
	Delete deleteOfKind[subnetKind]              `cmd:"" help:"Delete subnets."`
}
