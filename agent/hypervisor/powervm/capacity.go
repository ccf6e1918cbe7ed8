package powervm

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// unitsPerVCPU is the part of a processor that each virtual processor is entitled to.
const unitsPerVCPU = 0.1

// operating is the state of a system on which partitions can be created and started.
const operating = "operating"

// usable returns Unavailable unless partitions can be created and started on a system. A system without a state counts
// as usable.
func usable(system uom.ManagedSystem) error {
	if state := strings.TrimSpace(system.State); state != operating && state != "" {
		return fault.New(fault.Unavailable, "the managed system %s is in the state %q, not %q; no partition is "+
			"created or started until that ends", system.SystemName, state, operating)
	}
	return nil
}

// Check returns nil if the server answers and partitions can be created and started.
func (h *Hypervisor) Check(ctx context.Context) error {
	system, _, err := h.api.ManagedSystem(ctx)
	if err != nil {
		return err
	}
	return usable(system)
}

// Capacity returns the processors and the memory that guests may have: what no partition has, and what the guests have.
// The rest belongs to partitions of others. A system that does not report what is free counts as a whole.
func (h *Hypervisor) Capacity(ctx context.Context) (hypervisor.Capacity, error) {
	system, err := h.lastRead(ctx)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", err)
	}
	memory, units := number(system.MemoryMB, 0), number(system.ProcessorUnits, 0)
	freeMemory, freeUnits := number(system.FreeMemoryMB, -1), number(system.FreeUnits, -1)
	if freeMemory >= 0 || freeUnits >= 0 {
		guestMemory, guestUnits, err := h.used(ctx)
		if err != nil {
			return hypervisor.Capacity{}, fault.Wrap("", err)
		}
		if region := float64(regionMB(system)); freeMemory >= 0 {
			memory = min(memory, math.Floor(freeMemory/region)*region+guestMemory)
		}
		if freeUnits >= 0 {
			units = min(units, freeUnits+guestUnits)
		}
	}
	damaged, err := h.damagedFiles()
	return hypervisor.Capacity{Type: "phyp", VCPUs: int(math.Round(units*100)) / 100, MemoryMB: int(memory),
		DiskGB: h.options.DiskGB, DiskImages: hypervisor.NoDisks, NoLive: noLive, Remarks: damaged}, err
}

// damagedFiles returns a remark for each file of the driver that cannot be read.
func (h *Hypervisor) damagedFiles() (list hypervisor.Remarks, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.read(); err != nil {
		return nil, err
	}
	_, abandoned, err := h.abandoned.read()
	for _, id := range slices.Sorted(maps.Keys(h.damaged)) {
		list = append(list, hypervisor.Remark{Subject: id, Text: h.damaged[id]})
	}
	return append(list, abandoned...), err
}

// used returns the memory and the processor units of the guests whose partitions have them now. The memory is that of
// the guests, which Placement counts.
func (h *Hypervisor) used(ctx context.Context) (memory, units float64, err error) {
	records, err := h.locked()
	if err != nil || len(records) == 0 {
		return 0, 0, err
	}
	v, err := h.look(ctx, records)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range records {
		p, exists, err := h.partitionOf(ctx, v, r)
		if err != nil {
			return 0, 0, err
		}
		if !exists {
			continue
		}
		running := isRunning(p)
		if has := number(p.MemoryMB, -1); has > 0 || has < 0 && running {
			memory += float64(r.Guest.MemoryMB)
		}
		if running {
			units += unitsPerVCPU * float64(r.Guest.VCPUs)
		}
	}
	return memory, units, nil
}

// checkRoom returns Conflict if the system has less memory or fewer processor units left than a new partition needs:
// partitions of others may have taken them since the host was reported.
func checkRoom(system uom.ManagedSystem, g hypervisor.Guest) error {
	need, units := float64(roundedMB(system, g.MemoryMB)), unitsPerVCPU*float64(g.VCPUs)
	free, freeUnits := number(system.FreeMemoryMB, need), number(system.FreeUnits, units)
	var lacks string
	switch {
	case free < need:
		lacks = fmt.Sprintf("%.0f MiB of memory, of which %.0f are left", need, free)
	case freeUnits < units-0.001:
		lacks = fmt.Sprintf("%.2f processor units, of which %.2f are left", units, freeUnits)
	default:
		return nil
	}
	return fault.New(fault.Conflict, "the guest %s needs %s on the system %s; another host is "+
		"needed", g.ID, lacks, system.SystemName)
}

// regionMB returns the size of a memory region in MiB; 1 if the system does not report it.
func regionMB(system uom.ManagedSystem) int {
	for _, text := range []string{system.RegionMB, system.BlockMB} {
		if n := int(number(text, 0)); n > 0 {
			return n
		}
	}
	return 1
}

// roundedMB returns the memory of a partition for a guest: whole regions.
func roundedMB(system uom.ManagedSystem, memoryMB int) int {
	region := regionMB(system)
	return (memoryMB + region - 1) / region * region
}

// number reads a decimal number, and returns another value for text that is not a positive number or zero.
func number(text string, otherwise float64) float64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
		return otherwise
	}
	return n
}
