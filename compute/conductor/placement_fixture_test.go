package conductor

import (
	"context"
	"fmt"
	"maps"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// client returns a client of Placement for a conductor. It checks the spent devices before each call, so after each
// effect. fail may be nil.
func (c *cloud) client(fail failFunc) *placementtest.Placement {
	return c.placement.Client(func(call placementtest.Call) (before, after error) {
		c.checkSpent("before " + call.Op)
		if fail == nil {
			return nil, nil
		}
		return fail(call)
	})
}

// addHost creates the root provider of a host, and below it a provider pf-<host> of n devices unless n is 0.
func (c *cloud) addHost(host string, n int) {
	c.placement.SetProvider(provider.Provider{ID: provider.ID("root-" + host), Name: host,
		Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(64),
			"MEMORY_MB": resource.Whole(65536)}})
	if n > 0 {
		c.addProvider("pf-", host, n)
	}
}

// addProvider creates a provider of n devices with the id <prefix><host> below the root provider of a host.
func (c *cloud) addProvider(prefix, host string, n int) {
	root := provider.ID("root-" + host)
	c.placement.SetProvider(provider.Provider{ID: provider.ID(prefix + host), Name: prefix + host, Parent: root,
		Root:        root,
		Inventories: map[resource.Class]resource.Inventory{class: resource.Whole(n)}})
}

// reserve sets how many devices of a provider are reserved, and returns how many it has.
func (c *cloud) reserve(id provider.ID, reserved func(total int) int) int {
	c.t.Helper()
	for {
		now, err := c.placement.Inventories(context.Background(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		inv, next := now.Inventories[class], maps.Clone(now.Inventories)
		inv.Reserved = reserved(inv.Total)
		next[class] = inv
		_, err = c.placement.PutInventories(context.Background(), id, now.Generation, next)
		if err == nil {
			return inv.Total
		}
		if fault.CodeOf(err) != placement.CodeConcurrentUpdate {
			c.t.Fatal(err)
		}
	}
}

// hide reserves all devices of a provider, so that it is not a candidate.
func (c *cloud) hide(id provider.ID) {
	c.t.Helper()
	c.reserve(id, func(total int) int { return total })
}

// unhide makes a hidden provider a candidate again.
func (c *cloud) unhide(id provider.ID) {
	c.t.Helper()
	c.reserve(id, func(int) int { return 0 })
}

// spend reserves all devices of a host, as its agent does for devices for one-time use when their guest has started.
func (c *cloud) spend(host string) {
	c.t.Helper()
	pf := provider.ID("pf-" + host)
	devices := c.reserve(pf, func(total int) int { return total })
	c.spentMu.Lock()
	defer c.spentMu.Unlock()
	c.spent[pf] = devices
}

// checkSpent fails the test if another consumer could claim a spent device: a provider of spent devices must keep them
// reserved, and has no more room than its allocation uses.
func (c *cloud) checkSpent(when string) {
	c.spentMu.Lock()
	defer c.spentMu.Unlock()
	for pf, devices := range c.spent {
		now, err := c.placement.Inventories(context.Background(), pf)
		if err != nil {
			c.t.Error(err)
			continue
		}
		used, inv := c.usage(pf), now.Inventories[class]
		if free := inv.Total - inv.Reserved - used; used > devices || used > 0 && free > 0 || inv.Reserved != devices {
			c.t.Errorf("%s: %s has %d devices, %d reserved, %d used; want all of %d spent devices reserved and no free ones",
				when, pf, inv.Total, inv.Reserved, used, devices)
		}
	}
}

// usage returns how many devices of a provider are used.
func (c *cloud) usage(id provider.ID) int {
	used, err := c.placement.Usages(context.Background(), id)
	if err != nil {
		c.t.Error(err)
	}
	return used[class]
}

// devices returns the part of an allocation that consists of devices.
func devices(a resource.Allocation) resource.Allocation {
	out := resource.Allocation{}
	for id, amounts := range a {
		if n := amounts[class]; n > 0 {
			out[id] = resource.Amounts{class: n}
		}
	}
	return out
}

// allocations returns the allocations of all consumers as text, for messages.
func (c *cloud) allocations() string {
	out := ""
	for _, id := range c.placement.Consumers() {
		out += fmt.Sprintf("%s: %v\n", id, c.placement.Held(id))
	}
	return out
}

// allocate writes the allocation of a consumer that is not a server of compute. The audits of the test stop.
func (c *cloud) allocate(id resource.ConsumerID, a resource.Allocation) {
	c.changed.Store(true)
	c.placement.SetAllocation(id, a)
}
