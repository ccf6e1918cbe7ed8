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

// suspend stores the memory of a guest and ends it. QEMU cannot store the state of a device of the host.
func (b *builder) suspend(ctx context.Context) error {
	switch {
	case b.domain.guest.Suspended:
		return nil
	case len(b.domain.guest.Devices) > 0:
		return fault.New(fault.Conflict, "the guest %s has devices of the host (%v), whose state QEMU cannot store",
			b.guest.ID, ids(b.domain.guest))
	}
	return endedMeanwhile(b.guest.ID, rpc.Save(ctx, b.c, b.domain.Domain))
}

// unpause lets a guest run that is not to be paused any more. The metadata are changed afterwards, so that the guest
// counts as paused until it runs.
func (b *builder) unpause(ctx context.Context) error {
	if !b.domain.guest.Paused || b.guest.Paused || b.guest.Stopped {
		return nil
	}
	if err := b.c.Resume(ctx, b.domain.Domain); err != nil {
		return endedMeanwhile(b.guest.ID, err)
	}
	b.domain.guest.Paused = false
	return nil
}

// endedMeanwhile returns fault.Unavailable if libvirt has refused a call because the guest does not run.
func endedMeanwhile(id string, err error) error {
	if known, is := errors.AsType[*rpc.Error](err); is && known.Code == rpc.ErrOperationInvalid {
		return fault.New(fault.Unavailable, "the guest %s does not run: %w", id, known)
	}
	return err
}

// stop shuts a guest down, and ends it if it has not shut down in time.
func (d *Driver) stop(ctx context.Context, c *rpc.Client, of domain) error {
	if d.o.ShutdownTime > 0 {
		if err := c.Shutdown(ctx, of.Domain); err == nil {
			if down, err := awaitShutdown(ctx, d, c, of); down || err != nil {
				return err
			}
		}
	}
	return end(ctx, c, of.Domain)
}

// awaitShutdown reports whether the guest has shut down within the configured time.
func awaitShutdown(ctx context.Context, d *Driver, c *rpc.Client, of domain) (down bool, err error) {
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
