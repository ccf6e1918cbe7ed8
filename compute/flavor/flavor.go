// Package flavor derives the request groups of a server from its flavor, its image and the aliases of its PCI devices.
//
// The result is a resource.Ask for Placement, one pci.Request for each alias in the flavor, and the server's NUMA
// cells. All functions are pure: request ids come from an argument. An extra spec or image property that is not valid
// yields a fault of kind Invalid.
package flavor

import (
	"regexp"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// Flavor is a size of server that the operator offers.
type Flavor struct {
	ID          string // chosen by the operator, or a UUID
	Name        string // unique
	Description string
	VCPUs       int
	MemoryMB    int               // MiB
	DiskGB      int               // GiB of the root disk; 0: the size of the image
	Ephemeral   int               // GiB of a second disk
	Swap        int               // MiB
	RXTXFactor  float64           // OpenStack's rxtx_factor: stored and shown, without effect
	Public      bool              // os-flavor-access:is_public
	Disabled    bool              // OS-FLV-DISABLED:disabled
	ExtraSpecs  map[string]string // such as pci_passthrough:alias
}

// invalid returns a fault of kind Invalid.
func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...)
}

// The extra specs about devices and groups. Those about CPUs and NUMA are in cpu_policy.go and numa_topology.go. All
// others are stored and shown, without effect.
const (
	aliasSpec    = "pci_passthrough:alias"
	matchSpec    = "pci:match:" // and the name of a family
	affinitySpec = "hw:pci_numa_affinity_policy"
	policySpec   = "group_policy"
)

// socketAffinity is the trait of hosts that report the sockets of their NUMA nodes.
const socketAffinity resource.Trait = "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"

var groupSpec = regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{0,64}):(.*)$`)
