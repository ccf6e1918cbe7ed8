package loop

import (
	"context"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// diagnostics returns the answer of a hypervisor to a request for what a guest uses.
func diagnostics(ctx context.Context, of hypervisor.Hypervisor, r host.ConsoleRequest) host.ConsoleOutput {
	driver, ok := of.(hypervisor.Diagnosed)
	if !ok {
		return host.ConsoleOutput{Refused: "the hypervisor of the host has no diagnostics", Unsupported: true}
	}
	d, err := driver.Diagnostics(ctx, r.Guest)
	if err != nil {
		return host.ConsoleOutput{Refused: fault.TextOf(err)}
	}
	out := host.Diagnostics{Driver: d.Driver, Hypervisor: d.Hypervisor, State: d.State, ConfigDrive: d.ConfigDrive,
		MemoryKB: d.MemoryKB, UsedKB: d.UsedKB}
	for _, one := range d.CPUs {
		out.CPUs = append(out.CPUs, host.CPUStats(one))
	}
	for _, one := range d.Disks {
		out.Disks = append(out.Disks, host.DiskStats(one))
	}
	for _, one := range d.NICs {
		out.NICs = append(out.NICs, host.NICStats(one))
	}
	return host.ConsoleOutput{Diagnostics: &out}
}
