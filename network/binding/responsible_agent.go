// Package binding decides which agent of a host binds a port, and what a new policy means for the allocation of a
// bound port.
package binding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/qos"
)

// The VIF types of ports that no agent has bound.
const (
	Unbound = "unbound"
	Failed  = "binding_failed"
)

// VNICTypes lists the vnic types that a port may have.
func VNICTypes() []string {
	return []string{"normal", "direct", "macvtap", "direct-physical", "baremetal", "virtio-forwarder", "smart-nic", "vdpa",
		"accelerator-direct", "accelerator-direct-physical", "remote-managed"}
}

// Device is a provider of bandwidth of an agent.
type Device struct {
	Name             string
	Provider         string
	PhysicalNetworks []string
	PCISlots         []string // of its VFs; empty: not reported
}

// Agent is an agent of a host, as it has reported itself.
type Agent struct {
	Type      bandwidth.AgentType
	AdminUp   bool
	Silent    bool     // it has not reported itself for longer than agents may be silent
	Provider  string   // of packet rates; empty: it has none
	VNICTypes []string // that its configuration permits; nil: all that its mechanism binds
	Devices   []Device
	Tunnels   []string          // types of tunnelled networks that a Linux bridge agent connects
	Bridges   map[string]string // the operator's bridges of a Linux bridge agent, by physical network
}

// Segment is a segment of the port's network.
type Segment struct {
	UUID            string
	Type            string // local, flat, vlan, vxlan …
	PhysicalNetwork string
}

// Port is what a binding depends on. Allocation has the provider of each request group; nil: none.
type Port struct {
	VNICType   string
	Filtered   bool // it has security groups that must be enforced
	Switchdev  bool // binding:profile has the capability switchdev: its VF is connected by its representor
	PCISlot    string
	Allocation map[string]string
	Network    string // UUID
	Segments   []Segment
}

// Bound is the result of a binding.
type Bound struct {
	VIF     string
	Agent   bandwidth.AgentType
	Segment string // the UUID of the segment
	Bridge  string // that is connected to the segment; empty: another device, or a network without one
}

// BridgeName returns the name of the Linux bridge of a network, as Neutron's agent forms it: a name of a Linux
// interface has at most 15 bytes.
func BridgeName(network string) string { return "brq" + network[:min(len(network), 11)] }

// mechanism is how the agents of a type bind ports.
type mechanism struct {
	agent   bandwidth.AgentType
	filters bool       // the agent enforces security groups
	vnics   []string   // that it binds
	rules   []qos.Type // that it accepts
}

// mechanisms lists the mechanisms in the order in which they try a port without an allocation.
func mechanisms() []mechanism {
	return []mechanism{
		{bandwidth.LinuxBridge, true, []string{"normal"}, nil},
		{bandwidth.OpenVSwitch, false, []string{"normal", "direct", "vdpa"}, []qos.Type{qos.MinimumBandwidth,
			qos.MinimumPacketRate,
			qos.BandwidthLimit, qos.DSCPMarking}},
		{bandwidth.NICSwitch, false, []string{"direct", "macvtap", "direct-physical"}, []qos.Type{qos.MinimumBandwidth,
			qos.BandwidthLimit}},
	}
}

// SupportsRule reports whether a port with a vnic type, or any port if that is empty, can have a rule. agent restricts
// the answer to one type of agent, unless it is empty.
func SupportsRule(agent bandwidth.AgentType, vnicType string, kind qos.Type) bool {
	return slices.ContainsFunc(mechanisms(), func(m mechanism) bool {
		return (agent == "" || m.agent == agent) && (vnicType == "" || slices.Contains(m.vnics, vnicType)) &&
			slices.Contains(m.rules, kind)
	})
}

// noFilter is why a port with security groups cannot be where nothing enforces them.
const noFilter = "security groups are enforced on Linux bridges only, not on bridges of Open vSwitch and VFs; use " +
	"the default group of the project, which is not enforced there, or a host whose network is on a Linux bridge"

// NoFilter returns why the security groups of a port are not enforced, if its vnic type, or the agent that has bound
// it, decides that; empty if they are enforced or if that is not known. agent is empty for a port that is not bound.
func NoFilter(vnicType string, agent bandwidth.AgentType) string {
	filters := func(m mechanism) bool {
		return m.filters && (agent == "" || m.agent == agent)
	}
	all := mechanisms()
	if agent == "" && vnicType == "normal" || slices.ContainsFunc(all, func(m mechanism) bool {
		return filters(m) && slices.Contains(m.vnics, vnicType)
	}) {
		return ""
	}
	return noFilter
}

// Bind selects the agent and the segment for a port. refusal is why no agent can bind it; empty if one can.
//
// With an allocation exactly one agent must be responsible: all providers of the allocation are providers that this
// agent has reported. An agent that is silent binds no port. A direct-physical port without an allocation needs no
// agent.
func Bind(port Port, agents []Agent) (bound Bound, refusal string) {
	if !isBindable(port.VNICType) {
		return Bound{}, fmt.Sprintf("no agent binds ports of vnic type %s; use one of %s", port.VNICType,
			strings.Join(bindable(), ", "))
	}
	candidates, refusal := responsible(port, agents)
	if refusal != "" {
		return Bound{}, refusal
	}
	var reasons []string
	for _, m := range mechanisms() {
		for _, a := range candidates {
			if a.Type != m.agent {
				continue
			}
			bound, reason := m.bind(port, a)
			if reason == "" {
				return bound, ""
			}
			reasons = append(reasons, fmt.Sprintf("the %s: %s", a.Type, reason))
		}
	}
	if port.VNICType == "direct-physical" && len(port.Allocation) == 0 && len(port.Segments) > 0 {
		return Bound{VIF: "hostdev_physical", Agent: bandwidth.NICSwitch, Segment: port.Segments[0].UUID}, ""
	}
	if len(reasons) == 0 {
		return Bound{}, "no agent of the host has reported itself; set [vxlan] local_ip, [linux_bridge] or [ovs] " +
			"bridge_mappings, or [SRIOV_NIC] physical_device_mappings, and [neutron] endpoint_override or auth_type in the " +
			"configuration of `berth agent` there, start it, and see `berth host show`"
	}
	return Bound{}, strings.Join(reasons, "; ")
}

// bindable returns the vnic types of ports that some agent can bind.
func bindable() (types []string) {
	for _, m := range mechanisms() {
		for _, vnicType := range m.vnics {
			if !slices.Contains(types, vnicType) {
				types = append(types, vnicType)
			}
		}
	}
	return types
}

func isBindable(vnicType string) bool { return slices.Contains(bindable(), vnicType) }

// responsible returns the agents that may bind a port: with an allocation, the only one that has all its providers.
func responsible(port Port, agents []Agent) (list []Agent, refusal string) {
	agents = slices.DeleteFunc(slices.Clone(agents), func(a Agent) bool { return !a.AdminUp })
	if len(port.Allocation) == 0 {
		return agents, ""
	}
	var names []string
	for _, a := range agents {
		if a.hasAll(port.Allocation) {
			list, names = append(list, a), append(names, string(a.Type))
		}
	}
	switch len(list) {
	case 1:
		return list, ""
	case 0:
		return nil, "no agent of the host has reported all providers of binding:profile.allocation; check the agents " +
			"of the " +
			"host with `openstack network agent list --host`, and the option resource_provider_bandwidths there"
	}
	return nil, fmt.Sprintf("the providers of binding:profile.allocation belong to several agents: %s; make the "+
		"vnic types "+
		"of the agents disjoint with vnic_type_prohibit_list", strings.Join(names, ", "))
}

// hasAll reports whether all providers of an allocation are the agent's.
func (a Agent) hasAll(allocation map[string]string) bool {
	for _, p := range allocation {
		if p == "" || p != a.Provider && a.device(p) == nil {
			return false
		}
	}
	return true
}

// device returns the device with a provider; nil if the agent has none.
func (a Agent) device(provider string) *Device {
	for i := range a.Devices {
		if a.Devices[i].Provider == provider {
			return &a.Devices[i]
		}
	}
	return nil
}

// bind binds a port by one agent. The segment has a physical network of the device that the allocation names, or of any
// device.
func (m mechanism) bind(port Port, a Agent) (Bound, string) {
	if reason := m.check(port, a); reason != "" {
		return Bound{}, reason
	}
	devices := a.Devices
	for _, p := range port.Allocation {
		if d := a.device(p); d != nil {
			devices = []Device{*d}
		}
	}
	if reason := checkSlot(port, devices); reason != "" {
		return Bound{}, reason
	}
	for _, s := range port.Segments {
		device, reached := a.reaches(s, devices)
		if !reached {
			continue
		}
		bound := Bound{VIF: m.vif(port.VNICType), Agent: a.Type, Segment: s.UUID}
		switch a.Type {
		case bandwidth.OpenVSwitch:
			bound.Bridge = device
		case bandwidth.LinuxBridge:
			bound.Bridge = BridgeName(port.Network)
			if own := a.Bridges[s.PhysicalNetwork]; own != "" && s.Type == "flat" {
				bound.Bridge = own
			}
		}
		return bound, ""
	}
	return Bound{}, "none of its devices is connected to a segment of the network"
}

// check returns why an agent cannot bind a port, whatever its devices; empty: it can.
func (m mechanism) check(port Port, a Agent) string {
	isOVS := m.agent == bandwidth.OpenVSwitch
	switch {
	case a.Silent:
		return fmt.Sprintf("it has stopped reporting itself; start `berth agent` with the section [%s] on the host, or see "+
			"its log", a.Type.Section())
	case !slices.Contains(m.vnics, port.VNICType):
		return fmt.Sprintf("it does not bind ports of vnic type %s", port.VNICType)
	case port.Filtered && !m.filters:
		return noFilter
	case a.VNICTypes != nil && !slices.Contains(a.VNICTypes, port.VNICType):
		return fmt.Sprintf("[%s] vnic_type_prohibit_list prohibits the vnic type %s on its host", a.Type.DriverSection(),
			port.VNICType)
	case port.VNICType == "direct" && isOVS && !port.Switchdev:
		return `it binds ports of vnic type direct only with {"capabilities": ["switchdev"]} in binding:profile, for ` +
			"VFs whose representors are in a bridge; set that, or serve the physical network by " +
			"[SRIOV_NIC] physical_device_mappings"
	case port.VNICType == "direct" && !isOVS && port.Switchdev:
		return "it binds no ports with the capability switchdev in binding:profile, whose VFs it cannot configure"
	}
	return ""
}

// checkSlot returns why the VF of a port is not one of the devices; empty if it is, or if no VFs are reported. A
// direct-physical port has a PF, whose address is not reported.
func checkSlot(port Port, devices []Device) string {
	if port.PCISlot == "" || len(port.Allocation) == 0 || port.VNICType == "direct-physical" {
		return ""
	}
	for _, d := range devices {
		if len(d.PCISlots) == 0 || slices.Contains(d.PCISlots, port.PCISlot) {
			return ""
		}
	}
	return fmt.Sprintf("the VF %s does not belong to the device whose bandwidth is allocated; use a VF of that device",
		port.PCISlot)
}

// reaches reports whether one of the devices is connected to a segment, and returns its name. An Open vSwitch agent
// connects ports to segments without a physical network too, which no device has; a Linux bridge agent to local ones,
// and to those whose tunnels it has.
func (a Agent) reaches(s Segment, devices []Device) (device string, reached bool) {
	if s.PhysicalNetwork == "" {
		return "", a.Type == bandwidth.OpenVSwitch ||
			a.Type == bandwidth.LinuxBridge && (s.Type == "local" || slices.Contains(a.Tunnels, s.Type))
	}
	for _, d := range devices {
		if slices.Contains(d.PhysicalNetworks, s.PhysicalNetwork) {
			return d.Name, true
		}
	}
	return "", false
}

func (m mechanism) vif(vnicType string) string {
	switch {
	case m.agent == bandwidth.LinuxBridge:
		return "bridge"
	case m.agent == bandwidth.OpenVSwitch:
		return "ovs"
	case vnicType == "direct-physical":
		return "hostdev_physical"
	}
	return "hw_veb"
}
