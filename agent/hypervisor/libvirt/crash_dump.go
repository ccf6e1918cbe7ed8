package libvirt

import (
	"context"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// TriggerCrashDump gives a running guest a non-maskable interrupt.
func (d *Driver) TriggerCrashDump(ctx context.Context, id string) error {
	c, found, err := runningGuest(ctx, d, id)
	if err != nil {
		return err
	}
	return fault.Wrap("", rpc.InjectNMI(ctx, c, found.Domain))
}
