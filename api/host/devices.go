package host

import (
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Device is one PCI device of a host. ForPorts has an effect only while devices are reported in Placement.
type Device struct {
	Host          string   `json:"host"`
	Address       string   `json:"address"`
	VendorID      string   `json:"vendor_id"`
	ProductID     string   `json:"product_id"`
	Type          string   `json:"dev_type"`         // type-PCI, type-PF, type-VF
	Parent        string   `json:"parent,omitempty"` // address of the PF of a VF
	NUMANode      int      `json:"numa_node"`        // -1 when unknown
	Driver        string   `json:"driver,omitempty"`
	IOMMUGroup    int      `json:"iommu_group"`       // -1 when none
	Bridges       []string `json:"bridges,omitempty"` // addresses of the PCIe ports above it, from the root port down
	ResourceClass string   `json:"resource_class"`
	Traits        []string `json:"traits"`
	Provider      string   `json:"provider,omitempty"` // UUID of its provider; empty while not in Placement
	Slices        int      `json:"slices,omitempty"`   // how much of its class it takes of its provider; absent: one
	State         string   `json:"state"`              // such as available, claimed, allocated; see schedule.State
	Holder        string   `json:"holder,omitempty"`   // UUID of the server that holds it

	// set by compute: Holder is a consumer that compute has not placed on the host, and when this was first found
	UnknownSince time.Time `json:"holder_unknown_since,omitzero"`

	RequestID string `json:"request_id,omitempty"` // of the request it serves

	// Bandwidth is the UUID of the provider in Placement of the guaranteed bandwidth of its NIC; absent: there is none.
	Bandwidth string `json:"bandwidth_provider,omitempty"`

	// Present is false for a device that the host does not offer now: it is gone, it cannot be read, or device_spec does
	// not offer it. Such a device is in the list while a server holds it, or while it is disabled. Absent: it is offered.
	Present *bool `json:"present,omitempty"`

	RemoteManaged  bool   `json:"remote_managed,omitempty"`  // set by its rule: no alias is ever given it
	ForPorts       bool   `json:"for_ports,omitempty"`       // its rule has physical_network: for network ports only
	LiveMigratable string `json:"live_migratable,omitempty"` // "true", "false" or absent, set by its rule
	DevicePort
	// Properties are the operator's, by name: the values of each, sorted.
	Properties map[string][]string `json:"properties,omitempty"`
	OneTimeUse bool                `json:"one_time_use,omitempty"` // after a guest has started with it, it must be cleaned
	Spent      bool                `json:"spent,omitempty"`        // used once and not cleaned yet: `berth device clean`
	Disabled   bool                `json:"disabled,omitempty"`     // out of service: it can be given to no further server

	// Set by compute.
	Wanted  time.Time `json:"clean_wanted,omitzero"`   // since when an operator requests that it is cleaned
	Refused string    `json:"clean_refused,omitempty"` // why its agent has not cleaned it; absent: no answer yet
	// Disablements are why the device is disabled: its own ones, those of its PF, and those of its VFs.
	Disablements []DisabledDevice `json:"disablements,omitempty"`
}

// DevicePort are the properties of a device for network ports, from its rule.
type DevicePort struct {
	// PhysicalNetwork is the name of its network, empty for null; absent: the rule has no physical_network.
	PhysicalNetwork *string `json:"physical_network,omitempty"`
	Trusted         bool    `json:"trusted,omitempty"`

	// Of a remote-managed VF: by these its card finds it. Absent: the agent is older, or they are unknown.
	CardSerial string `json:"card_serial_number,omitempty"`
	PFMAC      string `json:"pf_mac_address,omitempty"` // of its PF; of a PF or a NIC for ports, its own
	VFNumber   int    `json:"vf_num,omitempty"`         // at its PF; with the others absent is 0
}

// WriteDevice returns a device of a host in the type of a report. How its card is found is reported for remote-managed
// devices only, and the MAC address of a NIC, which its port gets, for those of ports. Device.Read is the inverse.
func WriteDevice(host string, d pci.Offered) Device {
	out := Device{
		Host: host, Address: d.Address.String(), VendorID: d.Vendor, ProductID: d.Product, Type: string(d.Type),
		NUMANode: d.NUMANode, Driver: d.Driver, IOMMUGroup: d.IOMMUGroup, ResourceClass: string(d.ResourceClass),
		Traits: Strings(d.Traits), Provider: string(d.Provider), Bandwidth: string(d.Bandwidth), Slices: d.Slices,
		State: string(d.State), Holder: string(d.Holder), RequestID: d.RequestID, RemoteManaged: d.RemoteManaged,
		ForPorts: d.ForPorts, LiveMigratable: string(d.LiveMigratable),
		DevicePort: DevicePort{PhysicalNetwork: d.PhysicalNetwork, Trusted: d.Trusted},
		OneTimeUse: d.OneTimeUse, Spent: d.Spent, Disabled: d.Disabled, Properties: d.Properties,
	}
	if d.Parent != nil {
		out.Parent = d.Parent.String()
	}
	if d.Gone {
		out.Present = new(false)
	}
	for _, b := range d.Bridges {
		out.Bridges = append(out.Bridges, b.String())
	}
	switch {
	case d.RemoteManaged:
		out.CardSerial, out.PFMAC, out.VFNumber = d.Serial, d.PFMAC, d.VFNumber
	case d.ForPorts && pci.PortClass(d.Device) == pci.PortNIC:
		out.PFMAC = d.PFMAC
	}
	return out
}

// Gone reports whether the host does not offer the device now.
func (d Device) Gone() bool { return d.Present != nil && !*d.Present }

// Read converts a device of the report of a host. It returns fault.Invalid for a value that is not valid.
func (d Device) Read(host string) (out pci.Offered, err error) {
	if d.Host != "" && d.Host != host {
		return out, fault.New(fault.Invalid, "it is on host %q, the report is of host %q", d.Host, host)
	}
	out = pci.Offered{
		Device: pci.Device{Vendor: d.VendorID, Product: d.ProductID, Type: pci.Type(d.Type), NUMANode: d.NUMANode,
			Driver: d.Driver, IOMMUGroup: d.IOMMUGroup, Serial: d.CardSerial, PFMAC: d.PFMAC, VFNumber: d.VFNumber},
		ResourceClass: resource.Class(d.ResourceClass), Traits: convert[resource.Trait](d.Traits),
		Provider: resource.ProviderID(d.Provider), Bandwidth: resource.ProviderID(d.Bandwidth), Slices: d.Slices,
		State: pci.State(d.State), Holder: resource.ConsumerID(d.Holder), RequestID: d.RequestID,
		PortTags: pci.PortTags{PhysicalNetwork: d.PhysicalNetwork, RemoteManaged: d.RemoteManaged, Trusted: d.Trusted},
		ForPorts: d.ForPorts, LiveMigratable: pci.Flag(d.LiveMigratable), OneTimeUse: d.OneTimeUse, Spent: d.Spent,
		Disabled: d.Disabled, Gone: d.Gone(), Properties: d.Properties,
	}
	if out.Address, err = pci.ParseAddress(d.Address); err != nil {
		return out, err
	}
	switch out.Type {
	case pci.Plain, pci.Physical, pci.Virtual, pci.VDPA:
	default:
		return out, fault.New(fault.Invalid, "dev_type is %q; it must be one of %s, %s, %s, %s",
			d.Type, pci.Plain, pci.Physical, pci.Virtual, pci.VDPA)
	}
	if d.State == "" {
		return out, fault.New(fault.Invalid, "state is missing")
	}
	if d.Parent != "" {
		parent, err := pci.ParseAddress(d.Parent)
		if err != nil {
			return out, err
		}
		out.Parent = &parent
	}
	for _, b := range d.Bridges {
		bridge, err := pci.ParseAddress(b)
		if err != nil {
			return out, err
		}
		out.Bridges = append(out.Bridges, bridge)
	}
	return out, nil
}
