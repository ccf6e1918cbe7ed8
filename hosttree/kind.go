// Package hosttree describes hosts by their trees of resource providers: which provider is which device, what consumers
// hold of it, and what a host has.
//
// Placement and its clients use the same rules, so both have the same rows of a tree.
package hosttree

import (
	"regexp"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
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

// IsDevice reports whether a provider of the kind is a device or an I/O slot that a guest gets.
func (k Kind) IsDevice() bool { return k == PCI || k == Slot || k == Mediated }

// mediated is the end of the name of Nova's provider of a device with mediated devices: libvirt's name of the device.
var mediated = regexp.MustCompile(`^pci_([0-9a-f]{4,8})_([0-9a-f]{2})_([0-9a-f]{2})_([0-7])$`)

// KindOf returns what a provider represents, and the address of its device. host is the name of the root of its tree.
func KindOf(p *Provider, host string) (kind Kind, address string) {
	if p.Parent == "" {
		return Host, ""
	}
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
