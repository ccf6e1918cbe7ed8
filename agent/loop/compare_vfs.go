package loop

import (
	"context"
	"time"

	"github.com/openberth/berth/agent/vfconfig"
)

// compareVFs compares the VFs of guests with their ports until ctx ends: after guests were built or removed, after
// devices have changed, because a VF that was created again has no configuration, and at each interval, because
// policies of bound ports change.
func (a *Agent) compareVFs(ctx context.Context) {
	if a.o.DataPlane == nil {
		return
	}
	for {
		timer := time.NewTimer(a.o.PortInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.compare:
		case <-timer.C:
		}
		timer.Stop()
		call, cancel := context.WithTimeout(ctx, callTime)
		conditions := a.o.DataPlane.Compare(call, a.assignedVFs)
		cancel()
		a.deliver(ctx, a.conditions.vfsCompared(conditions))
	}
}

// assignedVFs returns the VFs of networks that guests have now.
func (a *Agent) assignedVFs() []vfconfig.Assigned {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.AssignedVFs()
}

// bridgeTime limits one pass over the networks of the host.
const bridgeTime = 2 * time.Minute

// syncBridges makes the networks of the host those of the network service at each interval, until ctx ends.
func syncBridges(ctx context.Context, a *Agent) {
	if a.o.Bridges == nil {
		return
	}
	for {
		call, cancel := context.WithTimeout(ctx, bridgeTime)
		conditions := a.o.Bridges.Sync(call)
		cancel()
		if e, changed := a.conditions.bridgesSynced(conditions); changed && ctx.Err() == nil {
			a.deliver(ctx, e)
		}
		timer := time.NewTimer(a.o.BridgeInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
