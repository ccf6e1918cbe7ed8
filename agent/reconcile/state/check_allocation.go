package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// CheckAllocation returns why an allocation in Placement does not cover the server's assignment; empty when it does.
func (c *Core) CheckAllocation(want host.Server, held placement.ConsumerAllocation) (refusal string) {
	here := false
	for id := range held.Allocation {
		if _, ours := c.Tree.ByID(id); ours {
			here = true
		}
	}
	if !here {
		return fmt.Sprintf("Placement has no allocation of server %s on %s", want.ID, c.Config.Host)
	}
	needs, whole := resource.Allocation{}, map[provider.ID]bool{}
	for _, r := range want.Requests {
		for _, p := range r.Providers {
			id := resource.ProviderID(p)
			if needs[id] == nil {
				needs[id] = resource.Amounts{}
			}
			n := slicesOf(c.Set, id, r)
			whole[id] = whole[id] || n > 0
			needs[id][resource.Class(r.Class)] += max(n, 1)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(needs)) {
		for _, class := range needs[id].Sorted() {
			has := held.Allocation[id][class]
			if has < needs[id][class] || whole[id] && has > needs[id][class] { // the number of VFs has changed
				return fmt.Sprintf("server %s is assigned %d %s of provider %s, but its allocation in Placement has %d",
					want.ID, needs[id][class], class, id, has)
			}
			if now, other := c.classChanged(id, class); other {
				return fmt.Sprintf("server %s is assigned %s of provider %s, but device_spec now gives it %s",
					want.ID, class, id, now)
			}
		}
	}
	return ""
}

// slicesOf returns how many slices of a provider a request takes that is for the PF of a card; 0 for any other request.
func slicesOf(set device.Set, id provider.ID, r host.Request) int {
	for _, e := range set.Entries() {
		if e.Provider == id && e.Slices > 0 && pci.Type(r.Type) == e.Type {
			return e.Slices
		}
	}
	return 0
}

// classChanged returns the present resource class of a provider's devices when it differs from class. A device held
// with the earlier class would make the host impossible to report.
func (c *Core) classChanged(id provider.ID, class resource.Class) (now resource.Class, other bool) {
	for _, e := range c.Set.Entries() {
		if e.Provider == id && e.ResourceClass == class {
			return "", false
		}
		if e.Provider == id {
			now = e.ResourceClass
		}
	}
	return now, now != ""
}
