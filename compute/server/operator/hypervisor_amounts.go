package operator

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// placementCalls is the number of requests to Placement at a time for a list of hypervisors. Each needs two, and
// one more for each NUMA node with dedicated CPUs.
const placementCalls = 8

// amountsOf returns what hosts have and use, from the inventories and usages of their providers in Placement, and the
// number of their servers.
func (s *Handlers) amountsOf(ctx context.Context, list []hostState) ([]compute.HypervisorAmounts, error) {
	only := ""
	if len(list) == 1 {
		only = list[0].Name
	}
	loads, err := s.Store.HostLoads(ctx, only)
	if err != nil {
		return nil, err
	}
	amounts := make([]compute.HypervisorAmounts, len(list))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(placementCalls, len(list)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var err error
				if amounts[i], err = s.hypervisorAmounts(ctx, list[i], loads[list[i].Name]); err != nil {
					cancel(err)
				}
			}
		})
	}
	running.Wait()
	return amounts, context.Cause(ctx)
}

// hypervisorAmounts returns what a host with this load has and uses.
func (s *Handlers) hypervisorAmounts(ctx context.Context, h hostState, load store.HostLoad) (
	a compute.HypervisorAmounts, err error) {
	total, used, err := s.placementAmounts(ctx, h.Provider)
	if err == nil && h.NodesInPlacement && s.Providers != nil {
		used, err = s.addDedicated(ctx, h, total, used)
	}
	a.Servers, a.Workload = load.Servers, load.Busy
	a.VCPUs, a.VCPUsUsed = total["VCPU"]+total["PCPU"], used["VCPU"]+used["PCPU"]
	a.RAM, a.RAMUsed, a.RAMFree = total["MEMORY_MB"], used["MEMORY_MB"], total["MEMORY_MB"]-used["MEMORY_MB"]
	a.Disk, a.DiskUsed, a.DiskFree = total["DISK_GB"], used["DISK_GB"], total["DISK_GB"]-used["DISK_GB"]
	a.DiskAvailable = &a.DiskFree
	return a, err
}

// addDedicated adds the threads for dedicated CPUs that the NUMA nodes of a host have and that are used of them.
func (s *Handlers) addDedicated(ctx context.Context, h hostState, total, used resource.Amounts) (resource.Amounts,
	error) {
	used = maps.Clone(used)
	for _, cell := range h.Cells {
		if len(cell.Dedicated) == 0 {
			continue
		}
		onNode, err := s.Providers.Usages(ctx, h.NodeProvider(cell.ID))
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return used, err
		}
		total[numa.DedicatedCPUs] += len(cell.Dedicated)
		used[numa.DedicatedCPUs] += onNode[numa.DedicatedCPUs]
	}
	return used, nil
}

// placementAmounts returns the totals and the usage of a host's root provider; nothing if Placement does not have it.
func (s *Handlers) placementAmounts(ctx context.Context, root provider.ID) (total, used resource.Amounts, err error) {
	total = resource.Amounts{}
	if s.Providers == nil {
		return total, nil, nil
	}
	set, err := s.Providers.Inventories(ctx, root)
	if err == nil {
		used, err = s.Providers.Usages(ctx, root)
	}
	if fault.Is(err, fault.NotFound) {
		return total, nil, nil
	}
	for class, inventory := range set.Inventories {
		total[class] = inventory.Total
	}
	return total, used, err
}
