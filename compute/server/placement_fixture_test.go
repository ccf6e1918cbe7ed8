package server

import (
	"context"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Inventories returns the inventories of the one host.
func (p *fakeProviders) Inventories(_ context.Context, _ provider.ID) (placement.InventorySet, error) {
	return placement.InventorySet{Inventories: map[resource.Class]resource.Inventory{
		"VCPU": {Total: 16, AllocationRatio: 4}, "MEMORY_MB": {Total: 32768}, "DISK_GB": {Total: 500}}}, p.err
}

// Usages returns what is used on the one host.
func (p *fakeProviders) Usages(_ context.Context, of provider.ID) (resource.Amounts, error) {
	if of != rootID && p.nodesErr != nil {
		return nil, p.nodesErr
	}
	if used, is := p.nodes[of]; is {
		return used, nil
	} else if of != rootID {
		return nil, fault.New(fault.NotFound, "no provider %s", of)
	}
	return resource.Amounts{"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 3}, p.err
}
