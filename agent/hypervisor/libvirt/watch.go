package libvirt

import (
	"context"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/backoff"
)

// redial is the wait before the next connection.
var redial = backoff.Exponential{First: 100 * time.Millisecond, Max: 10 * time.Second, Jitter: backoff.Around}

// reconnectTime is the time within which a libvirtd that has started connects to the running guests. It sends no event
// for those that end meanwhile.
const reconnectTime = 5 * time.Second

// Watch calls changed when a domain was defined, has started, paused, continued, ended or vanished, after each
// connection, because events may have been missed, and reconnectTime later. It connects again when the connection has
// ended; then it also calls changed, so that the agent reports a libvirtd that does not run.
func (d *Driver) Watch(ctx context.Context, changed func()) {
	failures := 0
	for ctx.Err() == nil {
		if failures++; d.watchOnce(ctx, changed) {
			failures = 1
		}
		_ = backoff.Sleep(ctx, redial.Wait(failures)) // the loop ends with ctx
	}
}

// watchOnce reports whether it was connected. It returns when the connection or ctx has ended.
func (d *Driver) watchOnce(ctx context.Context, changed func()) (connected bool) {
	c, err := rpc.Dial(ctx, d.o.Socket, d.o.URI, d.o.CallTime)
	if err != nil {
		d.o.Log.Warn("no events from libvirt, will retry", "error", err)
		return false
	}
	defer c.Close()
	changed()
	reconnected := time.After(reconnectTime)
	for {
		select {
		case <-ctx.Done():
			return true
		case <-reconnected:
			changed()
		case e, open := <-c.Events():
			if !open {
				changed()
				return true
			}
			switch e.Kind {
			case rpc.EventDefined, rpc.EventUndefined, rpc.EventStarted, rpc.EventStopped, rpc.EventCrashed, rpc.EventSuspended,
				rpc.EventResumed:
				changed()
			}
		}
	}
}
