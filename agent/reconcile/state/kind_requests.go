package state

import (
	"github.com/openberth/berth/agent/kind"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// KindRequests returns the requests for the devices of other kinds than PCI that an allocation names and the assignment
// does not, or a refusal.
func (c *Core) KindRequests(want host.Server, held placement.ConsumerAllocation) (list []pci.Request, refusal string) {
	of := kind.Allocated{Server: want.ID, Named: map[provider.ID]bool{}, Allocation: held.Allocation, Tree: c.Tree,
		ClassChanged: c.classChanged}
	for _, r := range want.Requests {
		for _, p := range r.Providers {
			of.Named[provider.ID(p)] = true
		}
	}
	for _, k := range c.Config.Kinds {
		more, refusal := k.Requests(of)
		if refusal != "" {
			return nil, refusal
		}
		list = append(list, more...)
	}
	return list, ""
}
