package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

var (
	_ hypervisor.Consoles    = (*Hypervisor)(nil)
	_ hypervisor.Diagnosed   = (*Hypervisor)(nil)
	_ hypervisor.CrashDumper = (*Hypervisor)(nil)
)

// Console returns the last bytes of a text that describes the guest, which prints nothing.
func (h *Hypervisor) Console(ctx context.Context, id string, bytes int) ([]byte, error) {
	g, err := h.guest(ctx, "console", id)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "The fake hypervisor runs no virtual machine, so this guest prints nothing.\n"+
		"guest: %s\nname: %s\nvcpus: %d\nmemory: %d MiB\ndisk: %d GiB\nimage: %s\nbuild: %d\n", g.ID, g.Name, g.VCPUs,
		g.MemoryMB, g.DiskGB, g.Image, g.Build)
	fmt.Fprintf(&text, "devices: %d\n", len(g.Devices))
	for _, d := range g.Devices {
		fmt.Fprintf(&text, "device: %s\n", d.ID)
	}
	fmt.Fprintf(&text, "interfaces: %d\n", len(g.Interfaces))
	for _, i := range g.Interfaces {
		fmt.Fprintf(&text, "interface: %s\n", i.MAC)
	}
	text.WriteString("end of the description\n")
	out := text.String()
	return []byte(out[max(0, len(out)-bytes):]), nil
}

// Diagnostics returns what the guest has; it uses nothing.
func (h *Hypervisor) Diagnostics(ctx context.Context, id string) (out hypervisor.Diagnostics, err error) {
	g, err := h.running(ctx, "diagnostics", id)
	if err != nil {
		return out, err
	}
	// The Compute API lists the drivers that exist; none of them is a fake one.
	out = hypervisor.Diagnostics{Driver: "libvirt", Hypervisor: hypervisor.FakeType, State: "running",
		MemoryKB: int64(g.MemoryMB) * 1024, Disks: []hypervisor.DiskStats{{Name: "vda"}}}
	if g.Paused {
		out.State = "paused"
	}
	for i := range g.VCPUs {
		out.CPUs = append(out.CPUs, hypervisor.CPUStats{ID: i})
	}
	for i, of := range g.Interfaces {
		out.NICs = append(out.NICs, hypervisor.NICStats{Name: fmt.Sprintf("vnet%d", i), MAC: of.MAC})
	}
	return out, nil
}

// TriggerCrashDump does nothing to a running guest.
func (h *Hypervisor) TriggerCrashDump(ctx context.Context, id string) error {
	_, err := h.running(ctx, "crash dump", id)
	return err
}

// running returns a guest that runs, maybe paused.
func (h *Hypervisor) running(ctx context.Context, operation, id string) (hypervisor.Guest, error) {
	g, err := h.guest(ctx, operation, id)
	if err == nil && (g.Stopped || g.Departed) {
		err = fault.New(fault.Conflict, "the guest %s does not run", id)
	}
	return g, err
}

// guest reads a guest for an operation on it.
func (h *Hypervisor) guest(ctx context.Context, operation, id string) (g hypervisor.Guest, err error) {
	if err := h.begin(ctx, operation, id); err != nil {
		return g, err
	}
	if err := checkID(id); err != nil {
		return g, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, err = h.readGuest(id)
	if errors.Is(err, fs.ErrNotExist) {
		return g, fault.New(fault.NotFound, "there is no guest %s", id)
	}
	return g, err
}
