// Package flavor derives the request groups of a server from its flavor, its image and the aliases of its PCI devices.
//
// The result is a resource.Ask for Placement, one pci.Request for each alias in the flavor, and the server's NUMA
// cells. All functions are pure: request ids come from an argument. An extra spec or image property that is not valid
// yields a fault of kind Invalid.
package flavor

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
