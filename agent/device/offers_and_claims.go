package device

import "github.com/openberth/berth/pci"

// Offer is a device that device_spec offers. Of a device that is not held, State, Holder and RequestID are empty. Only
// the entries of a Set have Disabled and Gone.
type Offer struct {
	pci.Offered
	Name string // of its provider, or ""
	// Networked: its rule has physical_network and not remote_managed. A VF is then configured and reset through its PF.
	Networked bool
	Managed   pci.Flag // of its rule; No: the hypervisor does not change the kernel's driver
}

// ID returns the device's ID.
func (o Offer) ID() ID { return PCI(o.Device.Address) }

// Unheld returns the offer without its holder.
func (o Offer) Unheld() Offer {
	o.State, o.Holder, o.RequestID = "", "", ""
	return o
}

// Claim is one device held by a consumer, claimed or allocated. A claim from a journal needs only Device.Address,
// Holder, RequestID, Provider and State; the rest then comes from the device's offer.
type Claim struct{ Offer }
