// Package facts defines what the agent reads of a host's hardware, and the interface of the sources that read it.
// Package sysfs is the source for hosts with a Linux kernel; the configuration selects the source.
package facts

import (
	"github.com/openberth/berth/pci"
)

// Facts are the devices and NUMA nodes of a host.
type Facts struct {
	Devices  []pci.Device // by address
	Nodes    []Node       // by number
	NICs     []NIC        // by name
	NICsRead bool         // NICs is complete: an interface that is not in it does not exist
	Problems []Problem    // what could not be read or parsed, by name

	// Parts are devices that are not PCI devices of the kernel, by the name of their kind; see agent/kind.
	Parts map[string]any
}

// Problem is a sentence about one device or NUMA node: what is wrong, what is assumed instead, and what to do.
type Problem struct {
	Name       string // as in the directory: an address, or a name such as node0
	Sentence   string
	Unreadable bool // the device exists, but its files do not identify it
}

// String prints the problem as a sentence.
func (p Problem) String() string { return p.Name + ": " + p.Sentence }

// NoSocket is the socket of a NUMA node whose socket is unknown.
const NoSocket = -1

// Node is a NUMA node.
type Node struct {
	ID       int
	CPUs     []int   // numbers of its host threads, ascending; none for a node with only memory
	Socket   int     // number of the physical package of its CPUs, or NoSocket
	Siblings [][]int // its threads by cores, each group ascending; nil when unknown
	MemoryMB int     // total in MiB; 0 when unknown
	Pages    []Pages // its huge pages, by size

	// Distances are the kernel's distances to each node, by number: 10 to itself, more to others; nil when unknown.
	Distances map[int]int
}

// Pages are the huge pages of one size.
type Pages struct {
	SizeKB int
	Total  int
}

// NIC is a network interface of a host.
type NIC struct {
	Name      string
	Address   *pci.Address // of its PCI device; nil for a virtual interface, such as a bond or a bridge
	SpeedMbps int          // of the link, in megabits per second; 0 when it is unknown or the link is down
	Master    string       // the bond or bridge that contains it; empty: none
	Bond      bool         // it is a bond of other interfaces
}
