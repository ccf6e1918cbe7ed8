package loop

import (
	"context"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
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
		a.deliver(ctx, state.VFsCompared{Conditions: conditions})
	}
}

// assignedVFs returns the VFs of networks that guests have now.
func (a *Agent) assignedVFs() []vfconfig.Assigned {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.AssignedVFs()
}
