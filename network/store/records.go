package store

// Base is what every object has. Times are microseconds since 1970 in UTC. Number counts the changes of the object: the
// API's revision_number.
type Base struct {
	ID          string   `json:"id"`
	Project     string   `json:"project"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Created     int64    `json:"created"`
	Updated     int64    `json:"updated"`
	Number      int      `json:"number"`
	Tags        []string `json:"tags,omitempty"`
}

// Common returns what every object has.
func (b *Base) Common() *Base { return b }

// Segment is one segment of a network. PhysicalNetwork is empty and ID is 0 for types without them.
type Segment struct {
	UUID            string `json:"uuid"`
	Name            string `json:"name,omitempty"`
	Description     string `json:"description,omitempty"`
	Type            string `json:"type"` // local, flat, vlan, vxlan, gre or geneve
	PhysicalNetwork string `json:"physical_network,omitempty"`
	ID              int    `json:"id,omitempty"`
	Number          int    `json:"number,omitempty"`
}

// Network is a network.
type Network struct {
	Base
	AdminUp      bool      `json:"admin_up"`
	Shared       bool      `json:"shared"`
	External     bool      `json:"external"`
	IsDefault    bool      `json:"is_default"`
	PortSecurity bool      `json:"port_security"`
	MTU          int       `json:"mtu"`
	Policy       string    `json:"policy,omitempty"`
	Segments     []Segment `json:"segments"`
	DNSDomain    string    `json:"dns_domain,omitempty"`
	ZoneHints    []string  `json:"zone_hints,omitempty"`
}

// Pool is a range of addresses.
type Pool struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// HostRoute is a route that hosts of a subnet receive.
type HostRoute struct {
	Destination string `json:"destination"`
	NextHop     string `json:"next_hop"`
}

// Subnet is a subnet.
type Subnet struct {
	Base
	Network     string      `json:"network"`
	IPVersion   int         `json:"ip_version"`
	CIDR        string      `json:"cidr"`
	Gateway     string      `json:"gateway,omitempty"` // empty: none
	DHCP        bool        `json:"dhcp"`
	DNS         []string    `json:"dns,omitempty"`
	Pools       []Pool      `json:"pools"`
	Routes      []HostRoute `json:"routes,omitempty"`
	RAMode      string      `json:"ra_mode,omitempty"`
	AddressMode string      `json:"address_mode,omitempty"`
	Segment     string      `json:"segment,omitempty"`
	Service     []string    `json:"service_types,omitempty"`
	SubnetPool  string      `json:"subnet_pool,omitempty"` // from which it is allocated; empty: none
	// UserChosen: its addresses were chosen by a user who may not create provider networks.
	UserChosen bool `json:"user_chosen,omitempty"`
}

// FixedIP is an address of a port.
type FixedIP struct {
	Subnet  string `json:"subnet"`
	Address string `json:"address"`
}

// AddressPair is a further address that a port may use.
type AddressPair struct {
	Address string `json:"address"`
	MAC     string `json:"mac,omitempty"`
}

// Binding is where a port is bound. Profile is what the client has given, as JSON.
type Binding struct {
	Host    string         `json:"host,omitempty"`
	VNIC    string         `json:"vnic"`
	Profile map[string]any `json:"profile,omitempty"`
	VIF     string         `json:"vif"`               // unbound, binding_failed, ovs, hw_veb …
	Agent   string         `json:"agent,omitempty"`   // the type of the agent that is responsible
	Segment string         `json:"segment,omitempty"` // the UUID of the bound segment
	Bridge  string         `json:"bridge,omitempty"`  // of Open vSwitch that is connected to the segment
	Reason  string         `json:"reason,omitempty"`  // why the binding has failed
}

// InactiveBinding is the binding of a port to a host to which its server migrates, or from which it has migrated.
// Allocated has the shares of the port there until the binding is activated.
type InactiveBinding struct {
	Binding
	Allocated map[string]Allocation `json:"allocated,omitempty"`
}

// Allocation is what Placement has recorded for a port of a server: amounts by resource class, by group id.
type Allocation struct {
	Provider string         `json:"provider"`
	Amounts  map[string]int `json:"amounts"`
}

// Port is a port.
type Port struct {
	Base
	Network      string                `json:"network"`
	MAC          string                `json:"mac"`
	AdminUp      bool                  `json:"admin_up"`
	PortSecurity bool                  `json:"port_security"`
	Status       string                `json:"status"`
	Device       string                `json:"device,omitempty"`
	Owner        string                `json:"owner,omitempty"`
	FixedIPs     []FixedIP             `json:"fixed_ips,omitempty"`
	Pairs        []AddressPair         `json:"pairs,omitempty"`
	Groups       []string              `json:"security_groups,omitempty"` // ids, sorted
	Binding      Binding               `json:"binding"`                   // the active one
	Inactive     []InactiveBinding     `json:"inactive_bindings,omitempty"`
	Policy       string                `json:"policy,omitempty"`
	DNSName      string                `json:"dns_name,omitempty"`
	NUMAAffinity string                `json:"numa_affinity,omitempty"`
	Allocated    map[string]Allocation `json:"allocated,omitempty"`
}

// Rule is a rule of a QoS policy. What a type does not have is 0 or empty.
type Rule struct {
	ID        string `json:"id"`
	Type      string `json:"type"` // minimum_bandwidth, minimum_packet_rate, bandwidth_limit, dscp_marking
	Direction string `json:"direction,omitempty"`
	Min       int    `json:"min,omitempty"` // kilobits or kilopackets per second
	Max       int    `json:"max,omitempty"` // kilobits per second
	Burst     int    `json:"burst,omitempty"`
	DSCP      int    `json:"dscp,omitempty"`
}

// Policy is a QoS policy.
type Policy struct {
	Base
	Shared    bool   `json:"shared"`
	IsDefault bool   `json:"is_default"`
	Rules     []Rule `json:"rules"`
}

// RBACPolicy shares an object with a project. Base.Project is the project that has created it.
type RBACPolicy struct {
	Base
	Type   string `json:"object_type"` // network, qos_policy, security_group or subnetpool
	Object string `json:"object"`
	Action string `json:"action"`
	Target string `json:"target"` // a project; *: all
}

// SubnetPool is a set of prefixes from which subnets are allocated.
type SubnetPool struct {
	Base
	IPVersion     int      `json:"ip_version"`
	Prefixes      []string `json:"prefixes"`
	MinLength     int      `json:"min_length"` // of the prefixes of subnets
	MaxLength     int      `json:"max_length"`
	DefaultLength int      `json:"default_length"`
	Quota         *int     `json:"quota,omitempty"` // of a project: IPv4 addresses, or IPv6 networks of length 64
	Shared        bool     `json:"shared"`
	IsDefault     bool     `json:"is_default"`
}

// SecurityGroup is a security group. Its rules are records of their own; a change of them counts as one of the group.
type SecurityGroup struct {
	Base
	Default   bool `json:"default"` // of its project
	Stateless bool `json:"stateless"`
}

// SecurityGroupRule is a rule of a security group, normalised. Base.Name is empty. Texts that are empty and numbers
// that are nil mean any.
type SecurityGroupRule struct {
	Base
	Group        string `json:"group"`
	Direction    string `json:"direction"`
	EtherType    string `json:"ethertype"`
	Protocol     string `json:"protocol,omitempty"`
	Min          *int   `json:"min,omitempty"`
	Max          *int   `json:"max,omitempty"`
	RemoteGroup  string `json:"remote_group,omitempty"`
	RemotePrefix string `json:"remote_prefix,omitempty"`
}

// AgentDevice is a provider of bandwidth that an agent reports.
type AgentDevice struct {
	Name             string   `json:"name"`
	Provider         string   `json:"provider"`
	PhysicalNetworks []string `json:"physical_networks,omitempty"`
	PCISlots         []string `json:"pci_slots,omitempty"` // of its VFs
}

// Agent is an agent of a host. Its Base.Name is its binary.
type Agent struct {
	Base
	Host      string        `json:"host"`
	Type      string        `json:"type"`
	AdminUp   bool          `json:"admin_up"`
	Started   int64         `json:"started"`
	Heartbeat int64         `json:"heartbeat"`
	Start     string        `json:"start,omitempty"`
	Synced    *bool         `json:"synced,omitempty"`
	Provider  string        `json:"provider,omitempty"` // of packet rates
	Root      string        `json:"root,omitempty"`     // the provider of the host
	Devices   []AgentDevice `json:"devices,omitempty"`
	Conf      string        `json:"configurations,omitempty"` // JSON, as the API returns it
	VNICTypes []string      `json:"vnic_types,omitempty"`     // that its ports may have; none: all that it can bind
	Tunnel    string        `json:"tunnel,omitempty"`         // the address of the tunnels of a Linux bridge agent
}

// Quota is the limits of a project; Base.ID is the project. -1: no limit.
type Quota struct {
	Base
	Limits map[string]int `json:"limits"`
}

// ConsumerChange is how the allocation of a consumer changes, by provider and resource class; 0: none.
type ConsumerChange struct {
	Before map[string]map[string]int `json:"before"`
	After  map[string]map[string]int `json:"after"`
}

// Change is a change of ports or a network for which the allocations of consumers must change first. Base.ID is random.
// It is stored before Placement is called, and deleted in the transaction that writes its result.
type Change struct {
	Base
	Consumers map[string]ConsumerChange `json:"consumers"`
	Network   *Network                  `json:"network,omitempty"` // as it is written; nil: unchanged
	Ports     []Port                    `json:"ports,omitempty"`   // as they are written
	Deleted   []string                  `json:"deleted,omitempty"` // ports that are removed
}

// Guarantees is the name of the event that a change of the policies of a server's ports has ended.
const Guarantees = "berth-guarantees"

// Event is an event that is reported to compute until compute has accepted it. It is stored in the transaction that
// makes the change. Base.ID is random.
type Event struct {
	Base
	Event  string `json:"event"`  // the name in the Compute API
	Server string `json:"server"` // the id of the server
	Port   string `json:"port,omitempty"`
	Change string `json:"change,omitempty"` // of allocations that has ended, for Guarantees
}
