package loop

import (
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// readRequests are the PCI requests of an assignment as words. The fault is Invalid: compute and agent do not speak the
// same version.
func readRequests(list []host.Request) ([]pci.Request, error) {
	var out []pci.Request
	for _, r := range list {
		p := pci.Request{ID: r.ID, Alias: r.Alias, Count: r.Count, Policy: pci.Policy(r.Policy),
			Want: pci.Want{Vendor: r.VendorID, Product: r.ProductID, Type: pci.Type(r.Type), Class: resource.Class(r.Class)}}
		switch p.Want.Type {
		case "", pci.Plain, pci.Physical, pci.Virtual:
		default:
			return nil, fault.New(fault.Invalid, "loop.readRequests", "request %s wants a device of type %q, which this agent does not know", r.ID, r.Type)
		}
		for _, t := range r.Required {
			p.Want.Required = append(p.Want.Required, resource.Trait(t))
		}
		for _, t := range r.Forbidden {
			p.Want.Forbidden = append(p.Want.Forbidden, resource.Trait(t))
		}
		for _, id := range r.Providers {
			p.Providers = append(p.Providers, resource.ProviderID(id))
		}
		out = append(out, p)
	}
	return out, nil
}
