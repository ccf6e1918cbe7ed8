package loop

import (
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// readRequests converts the PCI requests of an assignment. The fault is Invalid for a device type that this version of
// the agent does not support.
func readRequests(list []host.Request) ([]pci.Request, error) {
	var out []pci.Request
	for _, r := range list {
		p := r.PCIRequest()
		switch p.Requirement.Type {
		case "", pci.Plain, pci.Physical, pci.Virtual, pci.VDPA:
		default:
			return nil, fault.New(fault.Invalid, "loop.readRequests",
				"request %s wants a device of type %q, which this agent does not know", r.ID, r.Type)
		}
		out = append(out, p)
	}
	return out, nil
}
