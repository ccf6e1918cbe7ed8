package survey

import (
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Facts are the input of the survey.
type Facts struct {
	Host     string           // hypervisor hostname: the name of the root provider, and the start of the others'
	Root     provider.ID      // of the root provider
	VCPU     RootInventory    // host threads that guests share
	PCPU     RootInventory    // host threads that are given to one guest each
	MemoryMB RootInventory    // MiB
	DiskGB   RootInventory    // GiB
	Traits   []resource.Trait // of the root: capabilities of the hypervisor
	Devices  []pci.Device     // of the whole host, offered or not
	Rules    pci.Rules
	NICs     []facts.NIC // network interfaces of the host
	NUMA     NUMA
	Report   bool // [pci] report_in_placement
	// ReportNetwork is [berth] report_network_devices: with Report, devices for network ports are reported too.
	ReportNetwork bool
	VFIO          bool           // guests get devices by VFIO: only those of IOMMU groups that the host does not use
	NoLive        string         // why guests with devices cannot be live-migrated here; empty: they can
	Held          []device.Claim // claims of guests
	// Unreadable are the devices that exist and cannot be identified. They are not among Devices, unless they were read
	// before.
	Unreadable map[device.ID]bool
	Past
	Actual provider.Tree // as Placement has it, with the IDs of existing providers; may be empty

	known map[pci.Address]obstacle // obstacles of all devices, if Devices are only a part of them
}

// Past is what devices do not show.
type Past struct {
	Spent map[device.ID]bool // devices for one-time use that have been used
	VFs   map[device.ID]int  // of PFs that guests have as a whole, or had: how many they have when they are free
}

// NUMA is the NUMA nodes that guests may use.
type NUMA struct {
	Cells  []numa.Cell // without the usage of guests
	Limits numa.Limits
	// InPlacement is [berth] numa_in_placement: what nodes give to guests with NUMA cells is on a provider of each.
	InPlacement bool
}

// RootInventory is the root's inventory of one class. A total of 0 or less is not offered.
type RootInventory struct {
	Total       int
	Reserved    int     // kept for the host itself
	ReservedSet bool    // the configuration sets Reserved, which replaces Placement's value
	Ratio       float64 // allocation_ratio; 0: not configured, Placement's value stays (initially 1)
}

// Note is a sentence for the operator about a fact that does not prevent reporting.
type Note struct {
	About    string // an address or a provider's name
	Sentence string
}

// String prints the note as a sentence.
func (n Note) String() string { return n.About + ": " + n.Sentence }
