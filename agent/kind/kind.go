// Package kind defines a kind of devices that a host has beside PCI devices: what the agent asks a kind, so that
// packages reconcile, treeplan and loop name none. A source of facts puts what it has read of such devices into
// facts.Facts.Parts, and only the kind with the name of the part reads it. Package survey reports PCI devices.
package kind

import (
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Kind is a kind of devices. All functions must be set; those with a Host are called only for a host with a part.
type Kind struct {
	Name string // of its part in facts.Facts.Parts

	// Is reports whether an address identifies a device of the kind.
	Is func(pci.Address) bool
	// Owns reports whether a provider in the tree of a root is that of a device of the kind: its name alone decides.
	Owns func(p, root provider.Provider) bool
	// Offers returns the devices of the host.
	Offers func(Host) Offered
	// Desired adds the providers of the devices to the desired tree of the host. Invalid: the configuration cannot be
	// reported.
	Desired func(tree provider.Tree, h Host) (Desired, error)
	// Requests returns one request for each device that an allocation names and the assignment does not. The refusal is
	// a sentence: the guest would lack a device.
	Requests func(Allocated) (list []pci.Request, refusal string)

	// SharedNames returns the names of the providers that another host may have too, and the sentence for the case that
	// one has.
	SharedNames func(Host) (names []string, remedy string)
	// NameTaken returns the sentence for a name that Placement has refused because another provider has it; "": the name
	// is not one of SharedNames.
	NameTaken func(name string) (remedy string)
}

// Host is a host with devices of a kind.
type Host struct {
	Name   string         // hypervisor hostname
	Root   provider.ID    // of the host's provider
	Part   any            // of its facts; nil: it has no such devices
	Held   []device.Claim // devices of the kind that guests hold
	Actual provider.Tree  // as Placement has it; may be empty
	// Consumers are the amounts that each consumer holds of each provider in Actual; nil for a draft.
	Consumers map[provider.ID]map[resource.ConsumerID]resource.Amounts
}

// Offered is what a host has of a kind.
type Offered struct {
	Offers   []device.Offer
	Devices  []pci.Device // offered or not
	Complete bool         // other devices of the kind do not exist
}

// Desired is the desired tree of a host with the providers of a kind.
type Desired struct {
	Tree provider.Tree
	// Exact are the providers of the kind: their inventories hold exactly, the reserved amount included.
	Exact []provider.ID
	// Orphans are providers of the kind that must be deleted. No allocation needs them.
	Orphans []provider.ID
	Notes   []survey.Note
}

// Allocated is an allocation in Placement of a server that is assigned to the host.
type Allocated struct {
	Server     string // its id
	Named      map[provider.ID]bool
	Allocation resource.Allocation
	Tree       provider.Tree // of the host
	// ClassChanged returns the present class of a provider's devices when it is another one.
	ClassChanged func(id provider.ID, class resource.Class) (now resource.Class, other bool)
}
