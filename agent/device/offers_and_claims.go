package device

import (
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Offer is a device that device_spec offers.
type Offer struct {
	Device   pci.Device
	Provider resource.ProviderID // that counts it in Placement, or "" while it is not there
	Name     string              // of that provider, or ""
	Class    resource.Class
	Traits   []resource.Trait // sorted
	ForPorts bool             // only for network ports, never for an alias
	// Networked: its rule has physical_network and not remote_managed. A VF is then configured and reset through its PF.
	Networked bool
	Network   pci.PortTags // of its rule

	RemoteManaged  bool     // of its rule; likewise never for an alias
	Managed        pci.Flag // of its rule; No: the hypervisor does not change the kernel's driver
	LiveMigratable pci.Flag // of its rule
	Spent          bool     // for one-time use and used: it cannot be claimed until it is cleaned
}

// ID returns the device's ID.
func (o Offer) ID() ID { return PCI(o.Device.Address) }

// Claim is one device held by a consumer. A claim from a journal needs only Device.Address, Holder, Request, Provider
// and State; the rest then comes from the device's offer.
type Claim struct {
	Offer
	Holder  resource.ConsumerID
	Request string // request_id of the PCI request that it serves
	State   State  // Claimed or Allocated
}
