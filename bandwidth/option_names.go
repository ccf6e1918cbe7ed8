package bandwidth

// Option is the name of one of Neutron's options.
type Option string

// The options of an agent's section that describe bandwidth and packet rate.
const (
	BridgeMappingsOption    Option = "bridge_mappings" // of the Open vSwitch agent
	DeviceMappingsOption    Option = "physical_device_mappings"
	BandwidthsOption        Option = "resource_provider_bandwidths"
	HypervisorsOption       Option = "resource_provider_hypervisors"
	DefaultHypervisorOption Option = "resource_provider_default_hypervisor"
	DefaultsOption          Option = "resource_provider_inventory_defaults"
	PacketRatesOption       Option = "resource_provider_packet_processing_without_direction"
	DirectedRatesOption     Option = "resource_provider_packet_processing_with_direction"
	PacketDefaultsOption    Option = "resource_provider_packet_processing_inventory_defaults"
)

// OptionError is an error about one option.
type OptionError struct {
	Option   Option
	Sentence string
}

// Section returns the section of Neutron's files that configures an agent type.
func (t AgentType) Section() string {
	switch t {
	case NICSwitch:
		return "SRIOV_NIC"
	case LinuxBridge:
		return "linux_bridge"
	}
	return "ovs"
}

// DriverSection returns the section with vnic_type_prohibit_list of an agent type.
func (t AgentType) DriverSection() string {
	if t == NICSwitch {
		return "sriov_driver"
	}
	return "ovs_driver"
}

// MappingsOption returns the option that maps the devices of an agent type.
func (t AgentType) MappingsOption() Option {
	if t == NICSwitch {
		return DeviceMappingsOption
	}
	return BridgeMappingsOption
}

// Options returns the options that an agent type reads from its section.
func (t AgentType) Options() []Option {
	list := []Option{t.MappingsOption(), BandwidthsOption, HypervisorsOption, DefaultHypervisorOption, DefaultsOption}
	if t == OpenVSwitch {
		list = append(list, PacketRatesOption, DirectedRatesOption, PacketDefaultsOption)
	}
	return list
}

// defaultsOption returns the option with the inventory defaults of a provider.
func (a Agent) defaultsOption(n Name) Option {
	if n.Device == "" {
		return PacketDefaultsOption
	}
	return DefaultsOption
}

// hypervisorOption returns the option that configures the name of a root provider.
func (a Agent) hypervisorOption(hypervisor string) Option {
	if hypervisor == a.DefaultHypervisor {
		return DefaultHypervisorOption
	}
	return HypervisorsOption
}

// Where returns the place and the name of an option, as the beginning of a message: "ovs.ini:3: [ovs] bridge_mappings".
func (a Agent) Where(o Option) string {
	name := "[" + a.Type.Section() + "] " + string(o)
	if place := a.At[o]; place != "" {
		return place + ": " + name
	}
	return name
}
