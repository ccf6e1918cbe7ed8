// Package flavor turns what a server is made of, a flavor, an image and the aliases of its PCI devices, into request groups.
//
// The result is a resource.Ask for Placement, one pci.Request for each alias that the flavor names, and the server's NUMA cells. The package
// decides and does nothing: ids come as an argument, a refusal of the operator's words is a fault of kind Invalid.
package flavor

// Flavor is a size of server that the operator offers.
type Flavor struct {
	ID          string // the operator's own, or a UUID
	Name        string // unique
	Description string
	VCPUs       int
	MemoryMB    int               // MiB
	DiskGB      int               // GiB of the root disk; 0: as large as the image
	Ephemeral   int               // GiB of a second disk
	Swap        int               // MiB
	RXTXFactor  float64           // OpenStack's rxtx_factor: kept and shown, without effect
	Public      bool              // os-flavor-access:is_public
	Disabled    bool              // OS-FLV-DISABLED:disabled
	ExtraSpecs  map[string]string // such as pci_passthrough:alias
}
