package pci

import "github.com/openberth/berth/resource"

// OneTimeUse is the trait of the provider of a device whose rule has one_time_use.
const OneTimeUse resource.Trait = "HW_PCI_ONE_TIME_USE"

// State is the state of an offered device, in Nova's words.
type State string

// The states. Only an available device can be given to a server.
const (
	Available   State = "available"   // free
	Claimed     State = "claimed"     // held by a server whose guest is being built
	Allocated   State = "allocated"   // held by a server whose guest runs
	Unclaimable State = "unclaimable" // free itself, but its PF or one of its VFs is claimed
	Unavailable State = "unavailable" // free itself, but its PF or one of its VFs is allocated
	Removed     State = "removed"     // not offered by the host any more, and no longer known to its agent
)

// Amount returns how much of its class a device takes of its provider: the PF of a card that is also offered as its VFs
// takes all, any other device one.
func (o Offered) Amount() int { return max(o.Slices, 1) }

// Offered is a device that a host offers: what its rule in device_spec gives it, and which server holds it.
// api/host.WriteDevice and Device.Read convert it for the host report.
type Offered struct {
	Device
	ResourceClass resource.Class
	Traits        []resource.Trait    // sorted
	Provider      resource.ProviderID // that counts it in Placement, or "" while it is not there
	Bandwidth     resource.ProviderID // of the guaranteed bandwidth of its NIC in Placement, or "" if it has none
	Slices        int                 // of ResourceClass that it takes of Provider; 0: one. See Amount

	// of its rule
	PortTags
	ForPorts       bool // has physical_network: only for network ports, while the host reports devices to Placement
	LiveMigratable Flag
	OneTimeUse     bool       // it must be cleaned after a guest has started with it
	Properties     Properties // of the operator; Values returns all

	Spent     bool // for one-time use and used: it cannot be claimed until it is cleaned
	Disabled  bool // out of service: it cannot be claimed, and its holder keeps it; see Disablement
	Gone      bool // it is held, and the host does not offer it now: it is not there, not readable, or not in device_spec
	State     State
	Holder    resource.ConsumerID // the server that holds it, or ""
	RequestID string              // of the PCI request that it serves, or ""
}
