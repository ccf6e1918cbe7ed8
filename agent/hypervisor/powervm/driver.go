// Package powervm is the driver for hosts with PowerVM NovaLink: each guest is a logical partition with its I/O slots.
//
// A record of each guest is a file in a directory: what the agent must know and a partition cannot store, such as the
// request that a slot serves. The record is written before the partition is created, and marked complete after it
// runs. So a build that was interrupted is continued or removed. The state of a guest is that of its partition.
//
// Root disks and networks of partitions are not created. The rules, such as R49, are in
// docs/behaviour/powervm-ioslots.md.
package powervm

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// API is the part of the management REST API that the driver uses; *restclient.Client implements it.
type API interface {
	ManagedSystem(ctx context.Context) (system uom.ManagedSystem, changed bool, err error)
	Partitions(ctx context.Context, system string) ([]uom.Partition, error)
	Create(ctx context.Context, path string, object *uom.Element) (*uom.Element, error)
	Update(ctx context.Context, path string, change func(object *uom.Element) error) error
	Delete(ctx context.Context, path string) error
	RunJob(ctx context.Context, object, operation string, parameters ...uom.JobParameter) error
}

// Options configure a driver.
type Options struct {
	Dir    string // of the records; the first guest creates it
	DiskGB int    // GiB for guests; the system reports no disks of partitions
	// SlotsRequired keeps a partition from starting without one of its slots.
	SlotsRequired bool
	// LastRead returns the managed system as the source of facts has read it; nil: the driver reads it itself. It is used
	// for what a cycle lists, and never before a partition is created.
	LastRead func() (system uom.ManagedSystem, ok bool)
}

// Hypervisor builds guests as partitions.
type Hypervisor struct {
	api     API
	options Options
	mu      sync.Mutex // protects the records, so that the search for another holder and the write are one step
}

var (
	_ hypervisor.Hypervisor = (*Hypervisor)(nil)
	_ hypervisor.Starter    = (*Hypervisor)(nil)
)

// New returns a driver. It does no I/O.
func New(api API, o Options) *Hypervisor { return &Hypervisor{api: api, options: o} }

// noLive is why no guest with slots is live-migrated (R51).
const noLive = "PowerVM does not live-migrate a partition with physical I/O slots"

// Capacity returns the processors and the memory of the managed system that partitions may have.
func (h *Hypervisor) Capacity(ctx context.Context) (hypervisor.Capacity, error) {
	system, err := h.lastRead(ctx)
	if err != nil {
		return hypervisor.Capacity{}, fault.Wrap("", "powervm.Capacity", err)
	}
	units, _ := strconv.ParseFloat(strings.TrimSpace(system.ProcessorUnits), 64)
	memory, _ := strconv.Atoi(strings.TrimSpace(system.MemoryMB))
	return hypervisor.Capacity{VCPUs: int(math.Ceil(units)), MemoryMB: memory, DiskGB: h.options.DiskGB,
		NoLive: noLive}, nil
}

// Guests lists the guests whose records are complete and whose partitions exist.
func (h *Hypervisor) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	records, err := h.locked()
	if err != nil || len(records) == 0 {
		return nil, err
	}
	partitions, err := h.partitions(ctx)
	if err != nil {
		return nil, err
	}
	var list []hypervisor.Guest
	for _, r := range records {
		p, exists := partitions[r.Partition]
		if !r.Complete || !exists {
			continue
		}
		g := r.guest
		g.Stopped = !isRunning(p)
		list = append(list, g)
	}
	return list, nil
}

// locked reads the records.
func (h *Hypervisor) locked() ([]record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.read()
}

// lastRead returns the managed system as the source of facts has read it, or reads it.
func (h *Hypervisor) lastRead(ctx context.Context) (uom.ManagedSystem, error) {
	if h.options.LastRead != nil {
		if system, ok := h.options.LastRead(); ok {
			return system, nil
		}
	}
	system, _, err := h.api.ManagedSystem(ctx)
	return system, err
}

// partitions returns all partitions of the system by UUID.
func (h *Hypervisor) partitions(ctx context.Context) (map[string]uom.Partition, error) {
	system, err := h.lastRead(ctx)
	if err != nil {
		return nil, err
	}
	list, err := h.api.Partitions(ctx, system.UUID)
	out := map[string]uom.Partition{}
	for _, p := range list {
		out[strings.ToUpper(p.UUID)] = p
	}
	return out, err
}

// isRunning reports whether a partition was started and has not ended.
func isRunning(p uom.Partition) bool {
	state := strings.TrimSpace(p.State)
	return state != "not activated" && state != "not available" && state != "error"
}

// Rename changes the id in the guest's record. The partition keeps its UUID and its name.
func (h *Hypervisor) Rename(ctx context.Context, was, id, server string) error {
	const op = "powervm.Rename"
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, op, err)
	}
	for _, name := range []string{was, id} {
		if err := checkID(op, name); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	records, err := h.read()
	if err != nil {
		return err
	}
	old, exists := find(records, was)
	if !exists {
		return nil
	}
	if _, both := find(records, id); both {
		return fault.New(fault.Conflict, op, "there is a guest %s and a guest %s", was, id)
	}
	if err := h.move(was, id); err != nil {
		return err
	}
	old.guest.ID, old.guest.Server = id, server
	return h.write(old)
}

// Migrate refuses to live-migrate a guest. The fault is Conflict and names the slots.
func (h *Hypervisor) Migrate(_ context.Context, id string, _ hypervisor.Destination) error {
	const op = "powervm.Migrate"
	records, err := h.locked()
	if err != nil {
		return err
	}
	r, exists := find(records, id)
	if !exists {
		return fault.New(fault.NotFound, op, "there is no guest %s", id)
	}
	var slots []string
	for _, d := range r.guest.Devices {
		slots = append(slots, d.ID.String())
	}
	if len(slots) == 0 {
		return fault.New(fault.Conflict, op, "Berth does not live-migrate partitions of PowerVM; migrate the server cold")
	}
	return fault.New(fault.Conflict, op, "%s, and %s has %s; migrate the server cold", noLive, id,
		strings.Join(slots, ", "))
}

// Destroy powers the partition off, deletes it, which frees its slots (R50), and removes the record.
func (h *Hypervisor) Destroy(ctx context.Context, id string) error {
	const op = "powervm.Destroy"
	if err := checkID(op, id); err != nil {
		return err
	}
	records, err := h.locked()
	if err != nil {
		return err
	}
	r, exists := find(records, id)
	if !exists {
		return nil
	}
	partitions, err := h.partitions(ctx)
	if err != nil {
		return err
	}
	if p, there := partitions[r.Partition]; there {
		if err := h.setPower(ctx, p, true); err != nil {
			return err
		}
		if err := h.api.Delete(ctx, partitionPath(r.Partition)); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remove(id)
}

// setPower starts or stops a partition; one that is already so is not changed.
func (h *Hypervisor) setPower(ctx context.Context, p uom.Partition, stopped bool) error {
	if isRunning(p) == !stopped {
		return nil
	}
	path := partitionPath(strings.ToUpper(p.UUID))
	if !stopped {
		return h.api.RunJob(ctx, path, "PowerOn")
	}
	return h.api.RunJob(ctx, path, "PowerOff", uom.JobParameter{Name: "immediate", Value: "true"},
		uom.JobParameter{Name: "operation", Value: "shutdown"})
}

func partitionPath(uuid string) string { return "/uom/LogicalPartition/" + uuid }

// slots reads the system as it is now and returns the slots of a guest, checked (R49).
func (h *Hypervisor) slots(ctx context.Context, r record) (system uom.ManagedSystem, list []ioslot.Slot, err error) {
	system, _, err = h.api.ManagedSystem(ctx)
	if err != nil {
		return system, nil, err
	}
	var partitions []uom.Partition
	if !ioslot.OwnersReported(system) {
		if partitions, err = h.api.Partitions(ctx, system.UUID); err != nil {
			return system, nil, err
		}
	}
	var indices []ioslot.Index
	for _, d := range r.guest.Devices {
		index := d.ID.Address().DRC
		if index == 0 {
			return system, nil, fault.New(fault.Invalid, "powervm.Build",
				"the device %s is not an I/O slot; this host has only "+
					"those", d.ID)
		}
		indices = append(indices, ioslot.Index(index))
	}
	list, err = ioslot.FromSystem(system, partitions).ForPartition(r.Partition, indices)
	return system, list, err
}
