package hypervisor

import "context"

// CrashDumper is implemented by drivers that can make the kernel of a guest write a crash dump.
type CrashDumper interface {
	// TriggerCrashDump gives a running guest a non-maskable interrupt. What the guest does then is its configuration.
	// NotFound: there is no such guest. Conflict: it does not run.
	TriggerCrashDump(ctx context.Context, id string) error
}
