package bandwidth

import (
	"maps"
	"slices"

	"github.com/openberth/berth/provider"
)

// Heartbeat is what an agent reports to the network service about one agent type.
type Heartbeat struct {
	Agent          AgentType
	Host           string         // [DEFAULT] host of the agent
	Configurations map[string]any // as Neutron's agents report it: maps, lists, texts and numbers
	Providers      []provider.ID  // of the agent and its devices: a port's allocation refers to them
	// Synced reports whether Placement has what the agent must report; nil: not attempted yet, or another service reports
	// it. It is the value of resources_synced.
	Synced *bool

	Root      provider.ID // of the host; empty until known
	Provider  provider.ID // of the agent below the host: it has the packet rates
	VNICTypes []string    // that ports may have
	Devices   []HeartbeatDevice
}

// HeartbeatDevice is a mapped device of an agent.
type HeartbeatDevice struct {
	Name             string
	Provider         provider.ID // empty for a device without bandwidth
	PhysicalNetworks []string    // sorted
	VFs              []string    // PCI addresses of the VFs of its PF, sorted; none for a bridge
}

// HeartbeatDevices returns the devices of the agent's mappings, without their VFs, and the tunnelled pseudo-device if
// it has a bandwidth, sorted by name.
func (a Agent) HeartbeatDevices() (devices []HeartbeatDevice) {
	networks := map[string][]string{}
	for _, m := range a.Mappings {
		networks[m.Device] = append(networks[m.Device], m.Physnet)
	}
	for device := range a.Bandwidths {
		networks[device] = append([]string(nil), networks[device]...)
	}
	for _, device := range slices.Sorted(maps.Keys(networks)) {
		d := HeartbeatDevice{Name: device, PhysicalNetworks: networks[device]}
		slices.Sort(d.PhysicalNetworks)
		if _, ok := a.Bandwidths[device]; ok {
			d.Provider = Name{Hypervisor: a.hypervisor(device), Agent: a.Type, Device: device}.ID()
		}
		devices = append(devices, d)
	}
	return devices
}

// Configurations returns the content of the agent's heartbeat with Neutron's names. A rate that is not set is nil.
func (a Agent) Configurations() map[string]any {
	out := map[string]any{
		string(BandwidthsOption):  ratesContent(a.Bandwidths),
		string(DefaultsOption):    a.Defaults.content(),
		string(HypervisorsOption): a.DeviceHypervisors(),
	}
	if a.Type == NICSwitch {
		devices := map[string][]string{}
		for _, m := range a.Mappings {
			devices[m.Physnet] = append(devices[m.Physnet], m.Device)
		}
		out["device_mappings"] = devices
		return out
	}
	bridges := map[string]string{}
	for _, m := range a.Mappings {
		bridges[m.Physnet] = m.Device
	}
	out["bridge_mappings"] = bridges
	rates := map[string]map[string]any{}
	for hypervisor, r := range a.PacketRates {
		rates[hypervisor] = map[string]any{"any": r.content()}
	}
	out[string(PacketRatesOption)] = rates
	out[string(DirectedRatesOption)] = ratesContent(a.DirectedRates)
	out[string(PacketDefaultsOption)] = a.PacketDefaults.content()
	return out
}

// ProviderIDs returns the IDs of the agent's providers, sorted.
func (a Agent) ProviderIDs() (ids []provider.ID) {
	for _, d := range a.Providers() {
		ids = append(ids, d.Provider.ID)
	}
	slices.Sort(ids)
	return ids
}

func ratesContent(all map[string]Rates) map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, r := range all {
		out[name] = map[string]any{"egress": r.Egress.content(), "ingress": r.Ingress.content()}
	}
	return out
}

// content returns the amount of a rate, or nil if it is not set.
func (r Rate) content() any {
	if !r.Set {
		return nil
	}
	return r.Amount
}

func (d InventoryDefaults) content() map[string]any {
	out := map[string]any{}
	if d.AllocationRatio != nil {
		out["allocation_ratio"] = *d.AllocationRatio
	}
	for name, field := range map[string]*int{"min_unit": d.MinUnit, "max_unit": d.MaxUnit, "step_size": d.StepSize,
		"reserved": d.Reserved} {
		if field != nil {
			out[name] = *field
		}
	}
	return out
}
