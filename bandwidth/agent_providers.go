package bandwidth

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The resource classes of guaranteed bandwidth and packet rate.
const (
	EgressBandwidth   resource.Class = "NET_BW_EGR_KILOBIT_PER_SEC"
	IngressBandwidth  resource.Class = "NET_BW_IGR_KILOBIT_PER_SEC"
	PacketRate        resource.Class = "NET_PACKET_RATE_KILOPACKET_PER_SEC" // shared by both directions
	EgressPacketRate  resource.Class = "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC"
	IngressPacketRate resource.Class = "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC"
)

// Classes lists the resource classes that belong to the reporter of bandwidth.
func Classes() []resource.Class {
	return []resource.Class{EgressBandwidth, IngressBandwidth, PacketRate, EgressPacketRate, IngressPacketRate}
}

// IsPortClass reports whether a class is one that ports request with a QoS policy.
func IsPortClass(c resource.Class) bool { return slices.Contains(Classes(), c) }

// Agent is the configuration of one agent type on a host.
type Agent struct {
	Type              AgentType
	Mappings          []Mapping         // bridge_mappings or physical_device_mappings
	Bandwidths        map[string]Rates  // by device
	Hypervisors       map[string]string // by device
	DefaultHypervisor string            // of all other devices; never empty
	Defaults          InventoryDefaults // of bandwidth
	PacketRates       map[string]Rate   // by hypervisor
	DirectedRates     map[string]Rates  // packet rates by hypervisor
	PacketDefaults    InventoryDefaults // of packet rates
	VNICTypes         []string
	Tunnelled         string            // name of the pseudo-device for tunnelled networks; empty for agents without one
	At                map[Option]string // file and line of each option that is set
}

// Device is the desired provider of an agent or of a device. Provider.Parent is empty where the parent is the root.
type Device struct {
	Name     Name
	Provider provider.Provider
	// Absent is why the device does not exist now; empty if it exists. Then the provider is not created, and an existing
	// one is reserved whole.
	Absent string
}

// hypervisor returns the name of the root provider of a device.
func (a Agent) hypervisor(device string) string {
	if name := a.Hypervisors[device]; name != "" {
		return name
	}
	return a.DefaultHypervisor
}

// DeviceHypervisors returns the root provider's name of each mapped device and of the tunnelled pseudo-device.
func (a Agent) DeviceHypervisors() map[string]string {
	out := map[string]string{}
	for _, m := range a.Mappings {
		out[m.Device] = a.hypervisor(m.Device)
	}
	if a.Tunnelled != "" {
		out[a.Tunnelled] = a.hypervisor(a.Tunnelled)
	}
	return out
}

// hypervisors returns the names of all root providers below which the agent has a provider, sorted. A hypervisor with
// only a packet rate is one of them.
func (a Agent) hypervisors() []string {
	names := slices.Collect(maps.Values(a.DeviceHypervisors()))
	names = slices.AppendSeq(names, maps.Keys(a.PacketRates))
	names = slices.AppendSeq(names, maps.Keys(a.DirectedRates))
	slices.Sort(names)
	return slices.Compact(names)
}

// Providers returns the desired providers of the agent: one for each hypervisor, followed by one for each device with
// an entry in Bandwidths. Parents come before children. A rate that is 0 or not set has no inventory.
func (a Agent) Providers() []Device {
	var out []Device
	for _, hypervisor := range a.hypervisors() {
		own := Name{Hypervisor: hypervisor, Agent: a.Type}
		out = append(out, a.device(own, "", a.packetInventories(hypervisor)))
		for _, device := range slices.Sorted(maps.Keys(a.Bandwidths)) {
			if a.hypervisor(device) == hypervisor {
				name := Name{Hypervisor: hypervisor, Agent: a.Type, Device: device}
				out = append(out, a.device(name, own.ID(), a.inventories(device)))
			}
		}
	}
	return out
}

func (a Agent) device(name Name, parent provider.ID, inventories map[resource.Class]resource.Inventory) Device {
	return Device{Name: name, Provider: provider.Provider{ID: name.ID(), Name: name.String(), Parent: parent,
		Inventories: inventories, Traits: a.traits(name.Device)}}
}

// traits returns the traits of the provider of a device, sorted; with an empty device, those of the agent's provider.
func (a Agent) traits(device string) []resource.Trait {
	var out []resource.Trait
	for _, vnicType := range a.VNICTypes {
		out = append(out, VNICTrait(vnicType))
	}
	if device != "" && device == a.Tunnelled {
		out = append(out, Tunnel)
	}
	for _, m := range a.Mappings {
		if device != "" && m.Device == device {
			out = append(out, PhysnetTrait(m.Physnet))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a Agent) inventories(device string) map[resource.Class]resource.Inventory {
	rates := a.Bandwidths[device]
	return a.Defaults.inventories(map[resource.Class]Rate{EgressBandwidth: rates.Egress, IngressBandwidth: rates.Ingress})
}

func (a Agent) packetInventories(hypervisor string) map[resource.Class]resource.Inventory {
	rates := a.DirectedRates[hypervisor]
	return a.PacketDefaults.inventories(map[resource.Class]Rate{PacketRate: a.PacketRates[hypervisor],
		EgressPacketRate: rates.Egress, IngressPacketRate: rates.Ingress})
}

// inventories returns the inventories of rates. Placement accepts no total of 0.
func (d InventoryDefaults) inventories(rates map[resource.Class]Rate) map[resource.Class]resource.Inventory {
	out := map[resource.Class]resource.Inventory{}
	for class, rate := range rates {
		if rate.Amount > 0 {
			out[class] = d.Inventory(rate.Amount)
		}
	}
	return out
}

// maxName is the maximum length of a provider's name in Placement.
const maxName = 200

// Check returns the errors of options that contradict each other. The option is the one to correct; the others are
// correct on their own.
func (a Agent) Check() (wrong []OptionError) {
	add := func(option Option, format string, args ...any) {
		wrong = append(wrong, OptionError{option, fmt.Sprintf(format, args...)})
	}
	mapped := a.DeviceHypervisors()
	for _, device := range slices.Sorted(maps.Keys(a.Bandwidths)) {
		if _, is := mapped[device]; !is {
			add(BandwidthsOption, "element %q: device %s is missing in %s; add its physical network there, or remove the "+
				"element", device, device, a.Type.MappingsOption())
		}
	}
	if len(a.PacketRates) > 0 && len(a.DirectedRates) > 0 {
		add(PacketRatesOption, "resource_provider_packet_processing_with_direction is set too; an agent has packet rates "+
			"either with or without direction, remove one of the options")
	}
	for _, d := range a.Providers() {
		n := d.Provider
		if _, ok := Recognise(n); !ok {
			add(a.hypervisorOption(d.Name.Hypervisor),
				"hypervisor %q contains a colon, which separates the parts of provider names; write the name "+
					"of a root provider", d.Name.Hypervisor)
		} else if utf8.RuneCountInString(n.Name) > maxName {
			add(HypervisorsOption, "the provider %s would have a name of %d characters, and Placement allows %d; use shorter "+
				"names", n.Name, utf8.RuneCountInString(n.Name), maxName)
		}
		for _, class := range slices.Sorted(maps.Keys(n.Inventories)) {
			if inv := n.Inventories[class]; inv.Reserved > inv.Total {
				add(a.defaultsOption(d.Name), "reserved %d is greater than the total %d of %s of %s; lower it", inv.Reserved,
					inv.Total, class, n.Name)
			}
		}
		for _, t := range n.Traits {
			if !resource.IsCustom(string(t)) {
				add(a.Type.MappingsOption(), "the trait %.40s… of %s has %d characters, and Placement allows 255; use a shorter "+
					"name of the "+
					"physical network", t, n.Name, len(t))
			}
		}
	}
	return wrong
}

// Warnings returns sentences about physical networks that one trait represents: Placement cannot distinguish them.
func (a Agent) Warnings() (sentences []string) {
	first := map[resource.Trait]string{}
	for _, m := range a.Mappings {
		t := PhysnetTrait(m.Physnet)
		if other, taken := first[t]; taken && other != m.Physnet {
			sentences = append(sentences,
				fmt.Sprintf("physical networks %s and %s have the same trait %s, so ports of one may be "+
					"scheduled to devices of the other; rename one of them", other, m.Physnet, t))
			continue
		}
		first[t] = m.Physnet
	}
	return sentences
}

// Overlaps returns a sentence for each vnic type and physical network for which two agent types report bandwidth: a
// port may then get the bandwidth of one and be bound by the other.
func Overlaps(agents []Agent) (sentences []string) {
	for i, a := range agents {
		for _, b := range agents[i+1:] {
			for _, trait := range a.physnetTraits() {
				if !slices.Contains(b.physnetTraits(), trait) {
					continue
				}
				for _, vnicType := range a.VNICTypes {
					if slices.Contains(b.VNICTypes, vnicType) {
						sentences = append(sentences, fmt.Sprintf("%s and %s both report bandwidth with %s for the vnic type %s, so a "+
							"port may get it from one and be bound by the other; add the type to vnic_type_prohibit_list of [%s] or [%s]",
							a.Type, b.Type, trait, vnicType, a.Type.DriverSection(), b.Type.DriverSection()))
					}
				}
			}
		}
	}
	return sentences
}

// physnetTraits returns the traits of physical networks with bandwidth, sorted.
func (a Agent) physnetTraits() (traits []resource.Trait) {
	for _, m := range a.Mappings {
		if _, has := a.Bandwidths[m.Device]; has {
			traits = append(traits, PhysnetTrait(m.Physnet))
		}
	}
	slices.Sort(traits)
	return slices.Compact(traits)
}
