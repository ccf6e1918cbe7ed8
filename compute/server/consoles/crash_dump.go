package consoles

import (
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// CrashDump makes the agent give the guest of a server a non-maskable interrupt, as the action trigger_crash_dump does.
// It returns once that is done, so that the caller sees why it is refused: fault.Invalid by the hypervisor,
// fault.Conflict if the guest does not run. After fault.Unavailable, the guest may have been interrupted or not.
func (s *Handlers) CrashDump(c *request.Call, found lifecycle.Server) error {
	if found.Host == "" || found.Actual != lifecycle.On && found.Actual != lifecycle.Paused {
		return fault.New(fault.Conflict, "Cannot 'trigger_crash_dump' instance %s while it does not run", found.ID)
	}
	out, err := s.ask(c, found, host.ConsoleRequest{CrashDump: true})
	switch {
	case err != nil:
		return err
	case out.Unsupported:
		return fault.New(fault.Invalid, "Triggering crash dump is not supported: %s", out.Refused)
	case out.Refused != "":
		return fault.New(fault.Conflict, "Cannot 'trigger_crash_dump' instance %s: %s", found.ID, out.Refused)
	}
	return nil
}
