// Package powervm is the driver for hosts with PowerVM NovaLink: each guest is a logical partition with its I/O slots.
//
// A record of each guest is a file in a directory: what the agent must know and a partition cannot store, such as the
// request that a slot serves. The record is written before the partition is created, gets the UUID that the server
// gives to the partition, and is marked complete after the partition runs. So a build that was interrupted is continued
// or removed, also if the server answered nothing: the name of a partition ends in digits that no other one has, and
// finds it. The state of a guest is that of its partition.
//
// The records decide which guests exist. A partition that the server does not report is read by itself, and counts as
// deleted by another client only when the server has said so twice. Its guest is then listed as stopped.
//
// Root disks and networks of partitions are not created. The rules, such as R49, are in
// docs/behaviour/powervm-ioslots.md.
package powervm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// API is the part of the management REST API that the driver uses; *restclient.Client implements it.
type API interface {
	ManagedSystem(ctx context.Context) (system uom.ManagedSystem, changed bool, err error)
	// Partitions returns all partitions of a system. Unavailable: the answer is not complete.
	Partitions(ctx context.Context, system string) ([]uom.Partition, error)
	// Partition returns one logical partition. NotFound: the server says that it does not exist.
	Partition(ctx context.Context, uuid string) (uom.Partition, error)
	Create(ctx context.Context, path string, object *uom.Element) (*uom.Element, error)
	Update(ctx context.Context, path string, change func(object *uom.Element) error) error
	Delete(ctx context.Context, path string) error
	RunJob(ctx context.Context, object, operation string, parameters ...uom.JobParameter) error
	Close(ctx context.Context) // ends the session
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
	// Recheck is the time after which a partition that the server did not find is read again, before it counts as
	// deleted; 0: 10 seconds.
	Recheck time.Duration
	// Sweep is the interval between two searches for partitions that were created after the driver gave them up; 0: one
	// minute.
	Sweep time.Duration
	Log   *slog.Logger // nil: slog.Default()
}

// Hypervisor builds guests as partitions.
type Hypervisor struct {
	api       API
	options   Options
	mu        sync.Mutex        // protects the records, so that the search for another holder and the write are one step
	damaged   map[string]string // sentences about records that cannot be read, by guest; of the last read, under mu
	abandoned abandonedDir
	missing   map[string]time.Time // partitions by UUID: since when the server has not found them; protected by mu
}

var (
	_ hypervisor.Hypervisor = (*Hypervisor)(nil)
	_ hypervisor.Starter    = (*Hypervisor)(nil)
	_ hypervisor.Maintainer = (*Hypervisor)(nil)
)

// New returns a driver. It does no I/O.
func New(api API, o Options) *Hypervisor {
	o.Recheck, o.Sweep = cmp.Or(o.Recheck, 10*time.Second), cmp.Or(o.Sweep, time.Minute)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Hypervisor{api: api, options: o, missing: map[string]time.Time{},
		abandoned: abandonedDir(filepath.Join(o.Dir, "abandoned"))}
}

// Close ends the session with the server. A later call begins another one.
func (h *Hypervisor) Close(ctx context.Context) { h.api.Close(ctx) }

// noLive is why no guest with slots is live-migrated (R51).
const noLive = "PowerVM does not live-migrate a partition with physical I/O slots"

// Guests lists the guests whose records are complete. One whose partition was deleted by another client is stopped.
// Unavailable: the server does not report all partitions that the records name.
func (h *Hypervisor) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	records, err := h.locked()
	if err != nil || len(records) == 0 {
		return nil, err
	}
	v, err := h.look(ctx, records)
	if err != nil {
		return nil, err
	}
	var list []hypervisor.Guest
	for _, r := range records {
		if !r.Complete {
			continue
		}
		p, exists, err := h.partitionOf(ctx, v, r)
		if err != nil {
			return nil, err
		}
		g := r.Guest
		g.Stopped = !exists || !isRunning(p)
		g.Remark = remark(r, p, exists)
		list = append(list, g)
	}
	return list, nil
}

// remark returns what operators must know about the partition of a guest; empty when it is as the record says.
func remark(r record, p uom.Partition, exists bool) string {
	switch {
	case !exists:
		return fmt.Sprintf("the partition %s of server %s was deleted by another client; it is created again when the "+
			"server is started, also by the agent", r.Name, serverOf(r.Guest))
	case isRunning(p) && !hasSlots(p, r.Guest):
		lost, gained := slotChanges(p, r.Guest)
		text := fmt.Sprintf("the partition %s of server %s runs", r.Name, serverOf(r.Guest))
		if len(lost) > 0 {
			text += " without the I/O slots " + strings.Join(lost, ", ") + ", which another client has taken from it"
		}
		if len(gained) > 0 {
			text += " with the I/O slots " + strings.Join(gained, ", ") + ", which another client has given to it"
		}
		return text + "; stop and start the server to give it its own again"
	}
	return ""
}

// slotChanges returns the slots of a guest that its partition lacks, and those that the partition has beside them.
func slotChanges(p uom.Partition, g hypervisor.Guest) (lost, gained []string) {
	have, want := slotsOf(p), wantedSlots(g)
	for index := range want {
		if !have[index] {
			lost = append(lost, index.String())
		}
	}
	for index := range have {
		if !want[index] {
			gained = append(gained, index.String())
		}
	}
	slices.Sort(lost)
	slices.Sort(gained)
	return lost, gained
}

func serverOf(g hypervisor.Guest) string { return cmp.Or(g.Server, g.ID) }

// locked reads the records.
func (h *Hypervisor) locked() ([]record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.read()
}

// isRunning reports whether a partition was started and has not ended.
func isRunning(p uom.Partition) bool {
	state := strings.TrimSpace(p.State)
	return state != "not activated" && state != "not available" && state != "error"
}

// Rename changes the id in the guest's record. The partition keeps its UUID and its name.
func (h *Hypervisor) Rename(ctx context.Context, was, id, server string) error {
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	for _, name := range []string{was, id} {
		if err := checkID(name); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	records, err := h.read()
	if err != nil {
		return err
	}
	for _, name := range []string{was, id} {
		if err := h.checkRecord(name); err != nil {
			return err
		}
	}
	old, exists := find(records, was)
	if !exists {
		return nil
	}
	if _, both := find(records, id); both {
		return fault.New(fault.Conflict, "there is a guest %s and a guest %s", was, id)
	}
	if err := h.move(was, id); err != nil {
		return err
	}
	old.Guest.ID, old.Guest.Server = id, server
	return h.write(old)
}

// Migrate refuses to live-migrate a guest. The fault is Conflict and names the slots.
func (h *Hypervisor) Migrate(_ context.Context, id string, _ hypervisor.Destination) error {
	_, r, exists, err := h.recordOf(id)
	if err != nil {
		return err
	}
	if !exists {
		return fault.New(fault.NotFound, "there is no guest %s", id)
	}
	var slots []string
	for _, d := range r.Guest.Devices {
		slots = append(slots, d.ID.String())
	}
	if len(slots) == 0 {
		return fault.New(fault.Conflict, "Berth does not live-migrate partitions of PowerVM; migrate the server cold")
	}
	return fault.New(fault.Conflict, "%s, and %s has %s; migrate the server cold", noLive, id,
		strings.Join(slots, ", "))
}

// Destroy powers the partition off, deletes it, which frees its slots (R50), and removes the record. If the server may
// still create the partition, because it never answered the request, Maintain removes it then.
func (h *Hypervisor) Destroy(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	records, r, exists, err := h.recordOf(id)
	if err != nil || !exists {
		return err
	}
	v, err := h.look(ctx, records)
	if err != nil {
		return err
	}
	p, there, err := h.partitionOf(ctx, v, r)
	if err != nil {
		return err
	}
	if there {
		if err := h.adopt(&r, v, p); err != nil {
			return err
		}
		if err := h.setPower(ctx, p, true); err != nil {
			return err
		}
		if err := h.api.Delete(ctx, partitionPath(r.Partition)); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.missing, r.Partition)
	if !there && r.Requested {
		if err := h.abandoned.add(r); err != nil {
			return err
		}
	}
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
	if err == nil {
		err = usable(system)
	}
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
	for _, d := range r.Guest.Devices {
		index := d.ID.Address().DRC
		if index == 0 {
			return system, nil, fault.New(fault.Invalid, "the device %s is not an I/O slot; this host has only "+
				"those", d.ID)
		}
		indices = append(indices, ioslot.Index(index))
	}
	list, err = ioslot.FromSystem(system, partitions).ForPartition(r.Partition, indices)
	return system, list, err
}
