package loop

import (
	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

// checkDevices refuses to start a guest when the host has other devices than were claimed at its addresses: the guest
// would get a device that was not selected for it, such as a disk of the host. A guest that is stopped, or is to be
// stopped, is not checked. The fault is Conflict.
func (a *Agent) checkDevices(g hypervisor.Guest, claims []device.Claim) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if mismatch := device.Mismatch(claims, a.scanned); mismatch != "" && !g.Stopped {
		return fault.New(fault.Conflict, "loop.checkDevices", "the guest is not started with another device than was "+
			"claimed: %s; put the old device back, or delete or migrate the server", mismatch)
	}
	return nil
}
