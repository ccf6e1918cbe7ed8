package loop

import (
	"context"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// crashDump gives a guest a non-maskable interrupt, and returns the answer.
func crashDump(ctx context.Context, of hypervisor.Hypervisor, r host.ConsoleRequest) host.ConsoleOutput {
	driver, ok := of.(hypervisor.CrashDumper)
	if !ok {
		return host.ConsoleOutput{Refused: "the hypervisor of the host cannot interrupt guests", Unsupported: true}
	}
	if err := driver.TriggerCrashDump(ctx, r.Guest); err != nil {
		return host.ConsoleOutput{Refused: fault.TextOf(err)}
	}
	return host.ConsoleOutput{}
}
