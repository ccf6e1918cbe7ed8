package loop

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
)

// watchGuests requests a sync when guests change by themselves. Without events the rescan finds changes.
func (a *Agent) watchGuests(ctx context.Context) {
	driver, ok := a.o.Hypervisor.(hypervisor.Watcher)
	if !ok {
		return
	}
	var waiting atomic.Bool
	driver.Watch(ctx, func() {
		if waiting.CompareAndSwap(false, true) {
			time.AfterFunc(a.o.GuestSettle, func() {
				waiting.Store(false)
				a.deliver(ctx, state.DevicesChanged{})
			})
		}
	})
}
