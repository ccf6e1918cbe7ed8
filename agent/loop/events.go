package loop

import (
	"context"
	"time"
)

// Events tells of changes on the host's PCI bus: it calls changed for each, until ctx ends or it cannot go on.
type Events func(ctx context.Context, changed func()) error

// settle is how long the bus must be still before the agent looks: a PF that makes its VFs tells of each.
const settle = 200 * time.Millisecond

// listen looks at the host as soon as its devices change. Without events, or when they end, the rescan finds changes all the same.
func (a *Agent) listenEvents(ctx context.Context) {
	if a.o.Events == nil {
		return
	}
	timer := time.AfterFunc(time.Hour, func() { signal(a.syncNow) })
	defer timer.Stop()
	timer.Stop()
	err := a.o.Events(ctx, func() { timer.Reset(settle) })
	if ctx.Err() == nil {
		a.log.Warn("the kernel does not tell of changes on the PCI bus; they are found by looking again and again", "every", a.o.Rescan.String(), "error", err)
	}
}
