package libvirt

import (
	"context"
	"errors"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// stopPoll is the interval at which a guest that shuts down is looked at.
const stopPoll = 100 * time.Millisecond

// stop shuts a guest down, and ends it if it has not shut down in time.
func (d *Driver) stop(ctx context.Context, c *rpc.Client, of domain) error {
	if d.o.ShutdownTime > 0 {
		if err := c.Shutdown(ctx, of.Domain); err == nil {
			if down, err := d.awaitShutdown(ctx, c, of); down || err != nil {
				return err
			}
		}
	}
	return end(ctx, c, of.Domain)
}

// awaitShutdown reports whether the guest has shut down within the configured time.
func (d *Driver) awaitShutdown(ctx context.Context, c *rpc.Client, of domain) (down bool, err error) {
	deadline := time.After(d.o.ShutdownTime)
	for {
		state, _, err := c.State(ctx, of.Domain)
		if err != nil {
			return false, err
		}
		if state == rpc.Shutoff || state == rpc.Crashed {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, fault.New(fault.Unavailable, "the guest %s has not shut down yet: %w", of.guest.ID,
				context.Cause(ctx))
		case <-deadline:
			return false, nil
		case <-time.After(stopPoll):
		}
	}
}

// end ends a domain at once. One that does not run, or does not exist, counts as ended.
func end(ctx context.Context, c *rpc.Client, of rpc.Domain) error {
	err := c.Destroy(ctx, of)
	if known, is := errors.AsType[*rpc.Error](err); is &&
		(known.Code == rpc.ErrOperationInvalid || known.Code == rpc.ErrNoDomain) {
		return nil
	}
	return err
}
