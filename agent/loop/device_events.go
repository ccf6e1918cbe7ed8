package loop

import (
	"context"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
)

// settle is the quiet time on the bus before the agent syncs: a PF that creates VFs causes one event for each.
const settle = 200 * time.Millisecond

// listenEvents requests a sync when the host's devices change. Without events, or when they end, the rescan finds
// changes.
func (a *Agent) listenEvents(ctx context.Context) {
	if a.o.Events == nil {
		return
	}
	timer := time.AfterFunc(time.Hour, func() { a.deliver(ctx, state.DevicesChanged{}) })
	defer timer.Stop()
	timer.Stop()
	err := a.o.Events(ctx, func() { timer.Reset(settle) })
	if ctx.Err() == nil {
		a.log.Warn("no events from the PCI bus, rescanning instead", "every", a.o.Rescan.String(), "error", err)
	}
}
