package journal

import (
	"cmp"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// wireClaim is a claimed device with its properties at the time of the claim. They are all that the agent has of the
// device if it vanishes.
type wireClaim struct {
	Request  string           `json:"request"`
	State    pci.State        `json:"state"`
	ID       device.ID        `json:"address"`
	Vendor   string           `json:"vendor_id,omitempty"`
	Product  string           `json:"product_id,omitempty"`
	Type     pci.Type         `json:"dev_type,omitempty"`
	Code     uint32           `json:"pci_class,omitempty"` // 0 in a journal of an older agent
	Parent   *device.ID       `json:"parent,omitempty"`
	NUMANode int              `json:"numa_node"`
	Group    int              `json:"iommu_group"`
	Provider provider.ID      `json:"provider,omitempty"`
	Name     string           `json:"provider_name,omitempty"`
	Class    resource.Class   `json:"resource_class,omitempty"`
	Traits   []resource.Trait `json:"traits,omitempty"`
	Managed  pci.Flag         `json:"managed,omitempty"`
	Moves    pci.Flag         `json:"live_migratable,omitempty"`
	Network  bool             `json:"networked,omitempty"`
	Slices   int              `json:"slices,omitempty"`
}

// parentID returns the ID of a VF's PF; nil for any other device.
func parentID(d pci.Device) *device.ID {
	if d.Parent == nil {
		return nil
	}
	id := device.PCI(*d.Parent)
	return &id
}

func toWire(claims []device.Claim) []wireClaim {
	out := make([]wireClaim, len(claims))
	for i, c := range claims {
		d := c.Device
		out[i] = wireClaim{Request: c.RequestID, State: c.State,
			ID: c.ID(), Vendor: d.Vendor, Product: d.Product, Type: d.Type, Code: d.Class,
			Parent: parentID(d), NUMANode: d.NUMANode, Group: d.IOMMUGroup,
			Provider: c.Provider, Name: c.Name, Class: c.ResourceClass, Traits: c.Traits, Managed: c.Managed,
			Moves: c.LiveMigratable, Network: c.Networked, Slices: c.Slices}
	}
	return out
}

func fromWire(server string, wire []wireClaim) []device.Claim {
	var out []device.Claim
	for _, w := range wire {
		d := pci.Device{Address: w.ID.Address(), Vendor: w.Vendor, Product: w.Product, Type: w.Type,
			Class:    w.Code,
			NUMANode: w.NUMANode, IOMMUGroup: w.Group}
		if w.Parent != nil {
			pf := w.Parent.Address()
			d.Parent = &pf
		}
		out = append(out, device.Claim{Offer: device.Offer{
			Offered: pci.Offered{Device: d, ResourceClass: w.Class, Traits: w.Traits, Provider: w.Provider,
				Slices: w.Slices, LiveMigratable: w.Moves, OneTimeUse: slices.Contains(w.Traits, pci.OneTimeUse),
				State: w.State, Holder: resource.ConsumerID(server), RequestID: w.Request},
			Name: w.Name, Networked: w.Network, Managed: w.Managed}})
	}
	sortClaims(out)
	return out
}

func sortClaims(claims []device.Claim) {
	slices.SortFunc(claims, func(a, b device.Claim) int {
		return cmp.Or(a.ID().Compare(b.ID()), cmp.Compare(a.RequestID, b.RequestID))
	})
}
