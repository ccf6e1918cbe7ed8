// Package bandwidth defines how the guaranteed bandwidth and packet rate of a host are represented in Placement: the
// options that configure them, and the providers, traits and inventories that follow.
//
//	Neutron's options ─▶ Parse… ─▶ Agent ─▶ Providers ─▶ one provider per agent and one per device
//
//	cmp1
//	├─ cmp1:Open vSwitch agent          NET_PACKET_RATE_KILOPACKET_PER_SEC   CUSTOM_VNIC_TYPE_…
//	│  └─ cmp1:Open vSwitch agent:br-ex NET_BW_EGR_KILOBIT_PER_SEC, …IGR…    CUSTOM_PHYSNET_…, CUSTOM_VNIC_TYPE_…
//	└─ cmp1:NIC Switch agent                                                CUSTOM_VNIC_TYPE_…
//	   └─ cmp1:NIC Switch agent:ens1f0  NET_BW_EGR_KILOBIT_PER_SEC, …IGR…    CUSTOM_PHYSNET_…, CUSTOM_VNIC_TYPE_…
//
// Names and IDs are those of Neutron, so that Berth and Neutron can replace each other without a change of any
// allocation. Egress and ingress are from the guest's point of view: egress is what the guest sends.
package bandwidth

import (
	"strings"

	"github.com/openberth/berth/provider"
)

// AgentType is Neutron's type of an agent on a host. It is a part of the names of providers.
type AgentType string

// The agent types whose devices can have guaranteed bandwidth.
const (
	OpenVSwitch AgentType = "Open vSwitch agent"
	NICSwitch   AgentType = "NIC Switch agent" // SR-IOV
	OVN         AgentType = "OVN Controller agent"
)

// LinuxBridge is the type of agents that connect ports by Linux bridges. They have no provider in Placement.
const LinuxBridge AgentType = "Linux bridge agent"

// namespaces are the name spaces of the IDs. Neutron's mechanism drivers define them.
var namespaces = map[AgentType]provider.ID{
	OpenVSwitch: "87ee7d5c-73bb-11e8-9008-c4d987b2a692",
	NICSwitch:   "87f1895c-73bb-11e8-9008-c4d987b2a692",
	OVN:         "5533233b-800c-11eb-b1f4-000056b2f5b8",
}

// Name identifies a provider for an agent or, with a device, for a device of an agent.
type Name struct {
	Hypervisor string // name of the root provider
	Agent      AgentType
	Device     string // bridge, interface or the tunnelled pseudo-device; empty for the agent's own provider
}

// String returns the name of the provider: hypervisor, agent type and device, separated by colons.
func (n Name) String() string {
	if n.Device == "" {
		return n.Hypervisor + ":" + string(n.Agent)
	}
	return n.Hypervisor + ":" + string(n.Agent) + ":" + n.Device
}

// ID returns the ID of the provider. The agent type selects the name space; it is not a part of the hashed name.
func (n Name) ID() provider.ID {
	name := n.Hypervisor
	if n.Device != "" {
		name += ":" + n.Device
	}
	return provider.IDFromName(namespaces[n.Agent], name)
}

// ParseName parses the name of a provider. ok is false for names of other providers.
func ParseName(text string) (n Name, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return Name{}, false
	}
	n = Name{Hypervisor: parts[0], Agent: AgentType(parts[1])}
	if len(parts) == 3 {
		n.Device = parts[2]
	}
	_, known := namespaces[n.Agent]
	return n, known && n.Hypervisor != "" && (len(parts) == 2 || n.Device != "")
}

// Recognise returns the name of a provider that has both the name and the ID of a bandwidth provider. ok is false for
// other providers.
func Recognise(p provider.Provider) (n Name, ok bool) {
	n, ok = ParseName(p.Name)
	return n, ok && n.ID() == p.ID
}
