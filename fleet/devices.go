package fleet

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Kind is what a provider represents.
type Kind string

// The kinds of providers.
const (
	PCI        Kind = "pci"         // HOST_DDDD:BB:SS.F, with a PF or its VFs (Nova's specification of PCI in Placement)
	Slot       Kind = "ioslot"      // HOST_INDEX, an I/O slot of PowerVM
	Mediated   Kind = "mdev"        // HOST_pci_DDDD_BB_SS_F: vGPUs, or one type of mediated devices
	Bandwidth  Kind = "bandwidth"   // HOST:AGENT:DEVICE
	PacketRate Kind = "packet rate" // HOST:AGENT
	Host       Kind = "host"        // a root provider
	Other      Kind = "other"
)

// Device is one resource class of a provider that represents a device of a host.
type Device struct {
	Host     string           `json:"host"`
	Address  string           `json:"address"` // PCI address, DRC index, or the agent and its interface
	Kind     Kind             `json:"kind"`
	Name     string           `json:"provider_name"`
	Provider provider.ID      `json:"provider"`
	Class    resource.Class   `json:"resource_class"`
	Traits   []resource.Trait `json:"traits"`
	Total    int              `json:"total"`
	Reserved int              `json:"reserved"`
	Capacity int              `json:"capacity"`
	Used     int              `json:"used"`
	Holders  []Holder         `json:"holders"` // by consumer
}

// State returns whether more of the device can be allocated.
func (d Device) State() string {
	switch {
	case d.Used > d.Capacity:
		return "over capacity"
	case d.Capacity == 0 && d.Reserved > 0 && d.Used == 0:
		return "reserved"
	case d.Used > 0 && d.Used < d.Capacity:
		return "partly allocated"
	case d.Used > 0:
		return "allocated"
	}
	return "available"
}

// mediated is the end of the name of Nova's provider of a device with mediated devices: libvirt's name of the device.
var mediated = regexp.MustCompile(`^pci_([0-9a-f]{4,8})_([0-9a-f]{2})_([0-9a-f]{2})_([0-7])$`)

// KindOf returns what a provider represents, and the address of its device.
func (v *View) KindOf(p *Provider) (kind Kind, address string) {
	if p.Parent == "" {
		return Host, ""
	}
	host := v.HostOf(p)
	if n, ok := bandwidth.ParseName(p.Name); ok && n.Hypervisor == host {
		if n.Device == "" {
			return PacketRate, string(n.Agent)
		}
		return Bandwidth, string(n.Agent) + ":" + n.Device
	}
	rest, ok := strings.CutPrefix(p.Name, host+"_")
	if !ok {
		return Other, ""
	}
	if parts := mediated.FindStringSubmatch(rest); parts != nil {
		return Mediated, parts[1] + ":" + parts[2] + ":" + parts[3] + "." + parts[4]
	}
	at, err := pci.ParseAddress(rest)
	switch {
	case err != nil:
		return Other, ""
	case at.IsIOSlot():
		return Slot, at.String()
	}
	return PCI, at.String()
}

// Devices returns a row for each inventory of the providers of devices, by host, address and class. Inventories of
// hosts, NUMA nodes and other providers are left out.
func (v *View) Devices() []Device {
	list := []Device{}
	for i := range v.Providers {
		p := &v.Providers[i]
		kind, address := v.KindOf(p)
		if kind == Host || kind == Other {
			continue
		}
		for class, inventory := range p.Inventories {
			d := Device{Host: v.HostOf(p), Address: address, Kind: kind, Name: p.Name, Provider: p.ID, Class: class,
				Traits: p.Traits, Total: inventory.Total, Reserved: inventory.Reserved, Capacity: inventory.Capacity(),
				Holders: []Holder{}}
			for consumer, amounts := range p.Held {
				if n := amounts[class]; n > 0 {
					d.Used += n
					d.Holders = append(d.Holders, v.Holder(consumer, n))
				}
			}
			slices.SortFunc(d.Holders, func(a, b Holder) int { return cmp.Compare(a.Consumer, b.Consumer) })
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Class, b.Class))
	})
	return list
}
